"""Tensor intrinsics for NVIDIA's tensor cores, by the type of the operands: products of tiles with sums in float32."""
