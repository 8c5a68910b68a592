"""The step from scheduled functions to a library: generation of machine code and CUDA code, and linking."""
