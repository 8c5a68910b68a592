"""The descriptions of a package's memory in mod.json: what kernels allocate themselves, and the largest arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scratch:
    """The bytes that kernels allocate themselves, for example for padded inputs.

    Threads keep them for later kernels of all sessions.
    """

    caller: int
    """The bytes in the thread that calls."""
    worker: int
    """The bytes in each further thread."""

    def of_threads(self, threads: int) -> int:
        """Return the bytes of a call that uses so many threads."""
        return self.caller + (threads - 1) * self.worker


@dataclass(frozen=True)
class LargeArray:
    """One of a package's largest arrays."""

    part: str
    """``weights``, ``workspace`` or ``scratch``."""
    operator: str
    """The operator that writes it, or, for weights, that first reads it."""
    shape: tuple[int, ...]
    """The array's shape."""
    dtype: str
    """NumPy's name of its type."""
    bytes: int
    """Its size in bytes."""

    def describe(self) -> str:
        """Return a text like `workspace float32[1, 8, 8] of conv2d`."""
        return f"{self.part} {self.dtype}{list(self.shape)} of {self.operator}"


def read_scratch(value: Mapping[str, Any] | None) -> Scratch | None:
    """Parse the part `scratch` of a mod.json, which old packages lack."""
    return Scratch(value["caller"], value["worker"]) if value else None


def read_largest(values: Sequence[Mapping[str, Any]] | None) -> tuple[LargeArray, ...]:
    """Parse the part `largest` of a mod.json, which old packages lack."""
    return tuple(
        LargeArray(each["part"], each["operator"], tuple(each["shape"]), each["dtype"], each["bytes"])
        for each in values or ()
    )
