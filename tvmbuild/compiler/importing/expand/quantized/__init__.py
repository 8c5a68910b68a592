"""Operators on quantised tensors → dequantise, the float operator, quantise: the one form that later passes know."""
