"""Bounds of lengths that depend on data: the graph becomes one of fixed shapes, with a count of the real rows."""
