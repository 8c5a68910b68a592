"""Quantised networks: from QDQ to sums of integers."""
