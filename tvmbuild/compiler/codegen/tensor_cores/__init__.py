"""Tensor intrinsics for NVIDIA's tensor cores, by the operands' type: products of tiles, summed up in float32."""
