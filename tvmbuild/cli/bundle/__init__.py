"""The command `tvmbuild bundle`."""
