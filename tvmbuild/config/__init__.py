"""The configuration of a project: models.yaml and targets.yaml are read, checked and turned into values."""

from tvmbuild.config.load import load_project

__all__ = ["load_project"]
