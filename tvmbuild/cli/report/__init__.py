"""The command `tvmbuild report`."""
