"""`pip download` with the user's own configuration: the command for all downloads of distributions."""

from __future__ import annotations

import sys
from pathlib import Path

OLDEST_GLIBC = 17
"""The oldest minor version of glibc whose wheels are accepted: 2.17."""
NEWEST_GLIBC = 39


def download_command(folder: Path, *options: str) -> list[str]:
    """Return the pip command that downloads wheels into the folder. It builds nothing and asks no question."""
    fixed = ("--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--dest", str(folder))
    return [sys.executable, "-m", "pip", "download", *fixed, *options]


def foreign_options(machine: str, python: str, glibc: int = NEWEST_GLIBC) -> list[str]:
    """Return pip's options that select wheels for another machine, its Python (`3.11`) and its glibc.

    ``glibc`` is the machine's minor version: 36 stands for 2.36. pip matches each version of glibc exactly, so the
    options name all versions that the machine can use, the newest first.
    """
    versions = [f"manylinux_2_{minor}" for minor in range(glibc, OLDEST_GLIBC - 1, -1)]
    platforms = [f"{name}_{machine}" for name in (*versions, "manylinux2014", "manylinux1")]
    options = ["--implementation", "cp", "--python-version", python]
    return options + [part for platform in platforms for part in ("--platform", platform)]
