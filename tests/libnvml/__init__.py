"""Tests of the simulated libnvidia-ml.so.1."""
