"""Kernels of integer products in TE (tensor expressions), for the dot instructions of CPUs, and of byte lookups."""
