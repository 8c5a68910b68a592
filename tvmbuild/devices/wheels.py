"""Wheels for another machine, downloaded by pip with the user's configuration."""

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
    python: str
    glibc: int
    """The minor version of glibc: 36 stands for 2.36."""


def download_wheels(folder: Path, foreign: Foreign, names: tuple[str, ...], *options: str) -> list[Path]:
    """Download the wheels that tvmbuild requires under ``names``, with all their dependencies."""
    asked = foreign_options(foreign.machine, foreign.python, foreign.glibc)
    command = download_command(folder, "--quiet", *asked, *options, *list_requirements(names))
    run_tool(command, "pip", f"downloading wheels for {foreign.machine}")
    return sorted(folder.glob("*.whl"))
