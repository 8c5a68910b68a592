"""Winograd's transforms and products as TensorIR."""
