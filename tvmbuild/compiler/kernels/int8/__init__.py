"""Products of bytes in TE, for the dot instructions of CPUs."""
