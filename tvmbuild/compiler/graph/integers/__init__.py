"""Quantised networks in integers: what they compute between a dequantisation and the next quantisation."""
