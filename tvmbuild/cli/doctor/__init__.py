"""The command `tvmbuild doctor`."""
