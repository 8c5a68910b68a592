"""The libraries that quantise a model."""
