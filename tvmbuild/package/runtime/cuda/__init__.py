"""The times of kernels on NVIDIA's cards, which TVM's runtime lacks."""
