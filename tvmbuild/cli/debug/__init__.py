"""The command `tvmbuild debug`."""
