"""Normalisation, softmax and other reductions of a tensor's rows: all reductions and passes of a row, row by row."""
