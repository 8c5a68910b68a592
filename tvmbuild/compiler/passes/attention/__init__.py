"""The search for attention in the graph, and its description for the kernels."""
