"""The proof that the rows of a batch do not influence each other, node by node."""
