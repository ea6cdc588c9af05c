"""Benchmarks: counts and ratios of one run; never timed tests."""
