"""Schedule rules for functions that no record has scheduled."""
