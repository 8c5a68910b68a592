"""Kernels that find elements or boxes: their results are padded, and have a count."""
