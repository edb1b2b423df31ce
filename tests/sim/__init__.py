"""Tests of the simulated machine."""
