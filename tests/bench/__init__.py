"""Benchmarks: what the product costs, in ratios and counts first, in time where there is no other measure."""
