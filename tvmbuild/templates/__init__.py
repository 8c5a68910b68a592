"""The files that `tvmbuild init` writes."""
