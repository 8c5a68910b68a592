"""The search for a project's root, and the project's plan on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tvmbuild.base.byte_sizes import SIZE, read_size
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.layout import MODELS_YAML
from tvmbuild.base.specs import CacheSpec, Project
from tvmbuild.base.steps import Settings
from tvmbuild.config import load_project
from tvmbuild.config.cache import locate_cache
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.detection import detect_capabilities
from tvmbuild.planning.plan import Plan, make_plan

CACHE_VARIABLE = "TVMBUILD_CACHE"
SIZE_VARIABLE = "TVMBUILD_CACHE_SIZE"
ListMachines = Callable[[Sequence[str]], Sequence[Capabilities]]
"""A function that returns the capabilities of machines. It takes the compilers that targets name as their linker."""


def find_root(start: Path) -> Path:
    """Return the nearest folder with a models.yaml, from ``start`` upwards. Raises TvmbuildError if there is none."""
    folder = start.resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / MODELS_YAML).is_file():
            return candidate
    raise TvmbuildError(
        f"no {MODELS_YAML} in {folder} or above it",
        "Go to a project, or make one in an empty folder with `tvmbuild init`.",
    )


def load_plan(root: Path, settings: Settings, list_workers: ListMachines | None = None) -> Plan:
    """Return the project's plan for this machine, or for the machines that ``list_workers`` returns.

    Raises TvmbuildError for mistakes in the YAML.
    """
    project = load_project(root)
    commands = [target.link for target in project.targets if target.link != "auto"]
    workers = list_workers(commands) if list_workers else ()
    return make_plan(project, detect_capabilities(commands), replace(settings, cache=find_cache(project)), workers)


def find_cache(project: Project) -> CacheSpec | None:
    """Return the step cache that `TVMBUILD_CACHE` and `TVMBUILD_CACHE_SIZE` name, or the one of targets.yaml.

    Return None if there is none. An empty `TVMBUILD_CACHE` means no cache. Raises TvmbuildError if the size is invalid.
    """
    named, size = os.environ.get(CACHE_VARIABLE), os.environ.get(SIZE_VARIABLE)
    cache = project.cache
    if named is not None:
        path = locate_cache(project.root, named)
        cache = (replace(cache, path=path) if cache else CacheSpec(path)) if named else None
    if cache is None or not size:
        return cache
    if not SIZE.fullmatch(size):
        raise TvmbuildError(
            f"{SIZE_VARIABLE}={size} is not valid", "Write a size with its unit, such as 500 MB or 5 GB."
        )
    return replace(cache, size=read_size(size))
