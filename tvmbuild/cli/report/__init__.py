"""`tvmbuild report`."""
