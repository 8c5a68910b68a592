"""Products of bytes as TE, for the dot instructions of CPUs."""
