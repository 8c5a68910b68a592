"""Timing of single kernels on NVIDIA's cards, which TVM's runtime does not offer."""
