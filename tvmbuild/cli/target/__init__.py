"""`tvmbuild target`: the targets of a project."""
