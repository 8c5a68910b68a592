"""`tvmbuild records …`: one file an action."""
