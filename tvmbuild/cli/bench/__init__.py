"""`tvmbuild bench`."""
