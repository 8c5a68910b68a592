"""`tvmbuild bundle`."""
