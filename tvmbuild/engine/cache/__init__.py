"""The step cache: outputs kept under a key of all their dependencies."""
