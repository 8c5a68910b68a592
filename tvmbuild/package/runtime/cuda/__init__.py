"""What a package for NVIDIA's cards has beside TVM's runtime: the times of its kernels."""
