"""What both ends of a session with a board must agree on."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

PROTOCOL = 2
"""Of the functions whose names begin with PREFIX; both ends must have the same."""
PREFIX = "tvmbuild.board."


@dataclass(frozen=True)
class BoardInfo:
    """What a board says of itself."""

    protocol: int
    tvm: str | None
    tvmbuild: str
    machine: str
    """platform.machine(): aarch64."""
    cpu: str
    """LLVM's name of its CPU: its device class."""
    cores: int


def find_tvm() -> str | None:
    """Return the version of the installed TVM, or None."""
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        return None
