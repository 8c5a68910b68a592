"""Schedule rules for GPU functions."""
