"""Helpers for modules of Relax and TensorIR: calls, expressions, variables, functions."""
