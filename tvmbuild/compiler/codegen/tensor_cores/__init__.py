"""TVM's tensor intrinsics of NVIDIA's tensor cores: products of tiles, summed up in float32, by type of operands."""
