"""The attention kernel for CPUs, with vectors along queries for the scores and along a head's size for the output."""
