"""Convolutions by Winograd's algorithm: the choice, and what becomes of the graph."""
