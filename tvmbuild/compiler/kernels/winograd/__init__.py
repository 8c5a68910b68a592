"""The transforms and products of Winograd's convolution in TensorIR."""
