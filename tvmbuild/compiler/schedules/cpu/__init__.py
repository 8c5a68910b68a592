"""Schedule rules for CPU functions."""
