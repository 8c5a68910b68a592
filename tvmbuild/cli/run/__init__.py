"""`tvmbuild run`."""
