"""Expansion of operators on quantised tensors to dequantise, float operator, quantise, the form for later passes."""
