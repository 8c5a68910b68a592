"""From scheduled functions to a library: machine code, CUDA, linking."""
