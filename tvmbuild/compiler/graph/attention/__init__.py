"""Attention: found in the graph, one function in its place."""
