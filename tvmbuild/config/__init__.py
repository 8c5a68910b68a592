"""models.yaml and targets.yaml: read, checked, turned into values."""

from tvmbuild.config.load import load_project

__all__ = ["load_project"]
