"""Convolutions by Winograd's algorithm: the choice of the algorithm and the rewrite of the graph."""
