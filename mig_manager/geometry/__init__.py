"""Grids, slice names, card tables and the layout language: what a card can be cut into.

Pure: values in, values out. Nothing here opens NVML, talks to Kubernetes or knows a clock.
"""
