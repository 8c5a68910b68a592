"""The protocol of a session with a board, on which both ends must agree."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

PROTOCOL = 3
"""The version of the protocol. Both ends must have the same."""
PREFIX = "tvmbuild.board."
"""The beginning of the names of the protocol's functions in TVM's registry on the board."""


@dataclass(frozen=True)
class BoardInfo:
    """A board's description of itself."""

    protocol: int
    """The board's PROTOCOL."""
    tvm: str | None
    """The version of the board's TVM, or None if it is unknown."""
    tvmbuild: str
    """The version of the board's tvmbuild."""
    machine: str
    """The board's platform.machine(), for example aarch64."""
    cpu: str
    """LLVM's name of the board's CPU, which is its device class for CPU targets."""
    cores: int
    """The number of cores that the server may use."""


def find_tvm() -> str | None:
    """Return the version of the installed TVM, or None if it is not installed as a distribution."""
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        return None
