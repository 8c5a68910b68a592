"""Builds of a model as values: above compiler and replay, below the stages, free of steps and projects."""
