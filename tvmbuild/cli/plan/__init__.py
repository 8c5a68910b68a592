"""`tvmbuild plan`."""
