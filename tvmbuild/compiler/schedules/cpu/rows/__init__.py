"""Norms, softmax and what else reduces the rows of a tensor: all of a row's reductions and passes, row by row."""
