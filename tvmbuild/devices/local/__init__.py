"""The device `local`: the machine that runs tvmbuild, and its GPU."""
