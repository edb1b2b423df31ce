"""The agent on each node."""
