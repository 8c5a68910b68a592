"""The CUDA runtime, which plugin.py builds from native/ and loads, and the timing of single kernels on cards."""
