"""`tvmbuild device …`: one file an action."""
