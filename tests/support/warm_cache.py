"""A project with all its steps in a cache folder, from which clones restore them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from doit_project import DoitProject, Ran

SOURCES = ("digits.onnx", "models.yaml", "targets.yaml", "dodo.py", "records")


@dataclass(frozen=True)
class Warm:
    """A built project, and the cache that it filled."""

    project: DoitProject
    cache: Path


def list_restored(ran: Ran) -> list[str]:
    """Return the steps that came from the cache."""
    return re.findall(r"^ok (\S+)  [\d.]+ s  restored from the cache$", ran.output, re.MULTILINE)


def read_outputs(project: DoitProject) -> dict[str, bytes]:
    build = project.root / "build"
    folders = (build / "models", build / "cells")
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(build)): path.read_bytes() for path in paths}


def list_entries(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.step"))
