"""The step cache, which keeps outputs under a digest of all their dependencies."""
