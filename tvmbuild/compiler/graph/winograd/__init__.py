"""Winograd's convolutions: where they may stand, their functions, which of them is fastest."""
