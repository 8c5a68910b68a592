"""The step from scheduled functions to a library: machine code, CUDA, linking."""
