"""Winograd's transforms and products in TensorIR."""
