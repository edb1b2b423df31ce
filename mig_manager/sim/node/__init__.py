"""Simulated GPU nodes: a small kubelet, NVIDIA's device plugin, and pods that hold slices of a simulated machine."""
