"""Loops of normalisation, softmax and other functions over rows: all passes of a row run before those of the next."""
