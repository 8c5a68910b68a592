"""The machine that runs tvmbuild, and its GPU."""
