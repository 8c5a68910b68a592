"""The protocol on which both ends of a session with a board must agree."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

PROTOCOL = 2
"""The version of the functions whose names begin with PREFIX. Both ends must have the same."""
PREFIX = "tvmbuild.board."


@dataclass(frozen=True)
class BoardInfo:
    """A board's description of itself."""

    protocol: int
    tvm: str | None
    tvmbuild: str
    machine: str
    """platform.machine(), for example aarch64."""
    cpu: str
    """LLVM's name of its CPU, which is its device class."""
    cores: int


def find_tvm() -> str | None:
    """Return the version of the installed TVM, or None."""
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        return None
