"""The code generator for Vulkan: it turns TensorIR into SPIR-V kernels, from the public specifications only."""
