"""Simulated hardware and nodes: the same code paths as on real ones, without a GPU."""
