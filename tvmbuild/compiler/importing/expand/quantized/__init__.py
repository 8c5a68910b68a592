"""Operators on quantised tensors as dequantise, float operator, quantise: the one form that later passes know."""
