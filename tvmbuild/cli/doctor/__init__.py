"""`tvmbuild doctor`."""
