"""Vulkan code generation: TensorIR → SPIR-V kernels, from the public specifications alone."""
