"""Download of Python wheels for another machine, by pip with the user's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.pip_download import download_command, foreign_options
from tvmbuild.devices.qemu.board import list_requirements
from tvmbuild.devices.qemu.debian import run_tool


@dataclass(frozen=True)
class Foreign:
    """A machine for which wheels are downloaded."""

    machine: str
    """The machine's name in wheels, for example aarch64."""
    python: str
    """The version of Python, for example 3.11."""
    glibc: int
    """The minor version of glibc: 36 means 2.36."""


def download_wheels(folder: Path, foreign: Foreign, names: tuple[str, ...], *options: str) -> list[Path]:
    """Download the distributions ``names`` in the versions that tvmbuild requires, with all dependencies.

    ``options`` are more options of pip. Returns the files. Raises TvmbuildError if pip fails.
    """
    asked = foreign_options(foreign.machine, foreign.python, foreign.glibc)
    command = download_command(folder, "--quiet", *asked, *options, *list_requirements(names))
    run_tool(command, "pip", f"downloading wheels for {foreign.machine}")
    return sorted(folder.glob("*.whl"))
