"""The command `tvmbuild plan`."""
