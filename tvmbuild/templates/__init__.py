"""What `tvmbuild init` writes."""
