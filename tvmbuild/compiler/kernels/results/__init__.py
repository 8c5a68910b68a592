"""The kernels that make classes and boxes of a network's outputs."""
