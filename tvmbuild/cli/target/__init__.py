"""The command `tvmbuild target`, for the targets of a project."""
