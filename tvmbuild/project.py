"""Find a project and plan it on this machine."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.capabilities import detect_capabilities
from tvmbuild.config import load_project
from tvmbuild.errors import TvmbuildError
from tvmbuild.layout import MODELS_YAML
from tvmbuild.plan import Plan, make_plan
from tvmbuild.specs import Settings


def find_root(start: Path) -> Path:
    """Return the nearest folder with a models.yaml, from ``start`` upwards."""
    folder = start.resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / MODELS_YAML).is_file():
            return candidate
    raise TvmbuildError(
        f"no {MODELS_YAML} in {folder} or above it",
        "Go to a project, or make one in an empty folder with `tvmbuild init`.",
    )


def load_plan(root: Path, settings: Settings) -> Plan:
    """Return the project's plan on this machine; TvmbuildError for mistakes in the YAML files."""
    project = load_project(root)
    commands = [target.link for target in project.targets if target.link != "auto"]
    return make_plan(project, detect_capabilities(commands), settings)
