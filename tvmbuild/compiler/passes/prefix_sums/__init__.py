"""Prefix sums (CumSum) by functions for each kind of target."""
