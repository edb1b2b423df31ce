"""Declarative fleet manager for NVIDIA MIG partitions on Kubernetes."""
