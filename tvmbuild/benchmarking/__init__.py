"""Comparison of programs by their times: samples, statistics, the machine's state, history."""
