"""The command `tvmbuild bench`."""
