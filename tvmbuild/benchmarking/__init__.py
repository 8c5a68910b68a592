"""Benchmarks of packages: timing in turns with other programs, statistics, accuracy, and the history of results."""
