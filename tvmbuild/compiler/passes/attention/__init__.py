"""Attention found in the graph, and described."""
