"""The Cluster port and its implementation."""
