"""The preparation of a model: from its file to the graph that is built, and to the reference numbers."""
