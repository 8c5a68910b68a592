"""The gate and the timing of packages that take a camera's frames and return results."""
