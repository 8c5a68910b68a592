"""Wheels for another machine than this one, by pip with the user's configuration."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.devices.qemu.board import list_requirements
from tvmbuild.devices.qemu.debian import run_tool

_OLDEST_GLIBC = 17
"""Of wheels: 2.17."""


@dataclass(frozen=True)
class Foreign:
    """For what wheels are asked."""

    machine: str
    python: str
    glibc: int
    """36 for one that has 2.36."""


def download_wheels(folder: Path, foreign: Foreign, names: tuple[str, ...], *options: str) -> list[Path]:
    """Download the wheels of what tvmbuild's own requirements say of ``names``, with all that they need in turn."""
    platforms = [f"manylinux_2_{minor}_{foreign.machine}" for minor in range(foreign.glibc, _OLDEST_GLIBC - 1, -1)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += [
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={foreign.python}",
        "--dest",
        str(folder),
    ]
    for platform in (*platforms, f"manylinux2014_{foreign.machine}"):
        command += ["--platform", platform]
    run_tool([*command, *options, *list_requirements(names)], "pip", f"downloading wheels for {foreign.machine}")
    return sorted(folder.glob("*.whl"))
