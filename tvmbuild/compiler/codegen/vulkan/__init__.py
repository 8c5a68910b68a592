"""Kernels for Vulkan: TensorIR → SPIR-V, from the public specifications alone."""
