"""Timing programs against each other: samples, statistics, the machine's state, history."""
