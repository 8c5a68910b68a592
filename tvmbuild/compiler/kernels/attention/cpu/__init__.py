"""Attention's function on CPUs: vectors along queries for the scores, along a head's size for what they weigh."""
