"""Rewrites of the graph, before it is fused into Tasks."""
