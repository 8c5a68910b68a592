"""The results of packages: one module for each kind, from a network's outputs to boxes, masks, classes, text."""
