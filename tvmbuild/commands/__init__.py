"""One file a command of `tvmbuild`."""
