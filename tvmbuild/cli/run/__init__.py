"""The command `tvmbuild run`."""
