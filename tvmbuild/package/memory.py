"""The memory that a package takes, beside the runtime's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from tvmbuild.package.allocations import LargeArray
from tvmbuild.package.metadata import PackageInfo, default_threads

_MEGABYTE = 999_500  # by which "1000 kB" reads "1.0 MB"


@dataclass(frozen=True)
class Memory:
    """The memory of a package in bytes."""

    weights: int
    """On a CPU these are pages of the package's file, which all sessions and processes share."""
    workspace: int | None
    """The memory for the values between the operators and for the outputs. None: the package is too old to say it."""
    code: int
    on_gpu: bool = False
    """True if weights and workspace are in the memory of a GPU. The code that launches the kernels is on the host."""
    scratch: int | None = None
    """The memory that kernels allocate themselves, in all threads. None: the package is too old to say it."""
    largest: tuple[LargeArray, ...] = ()
    """The largest arrays of weights, workspace and scratch memory, the largest first."""

    @property
    def total(self) -> int:
        """The sum."""
        return self.weights + (self.workspace or 0) + (self.scratch or 0) + self.code

    def describe(self) -> str:
        """Return the parts in words, the largest first: `weights 14.0 MB, workspace 7.2 MB, code 0.3 MB`."""
        parts = {
            "weights": self.weights,
            "workspace": self.workspace,
            "code": self.code,
            "scratch": self.scratch or None,
        }
        known = sorted(((size, name) for name, size in parts.items() if size is not None), reverse=True)
        told = [f"{name} {format_size(size)}" for size, name in known]
        where = "; weights and workspace on the GPU" if self.on_gpu else ""
        return ", ".join([*told, *(["workspace unknown"] if self.workspace is None else [])]) + where

    def list_largest(self) -> str:
        """Return the largest arrays in words: `workspace float32[1, 8, 8, 16] of conv2d (0.5 MB), …`."""
        return ", ".join(f"{each.describe()} ({format_size(each.bytes)})" for each in self.largest)

    def explain_excess(self, limit: int) -> str | None:
        """Return in words the limit in bytes and the largest arrays if the memory exceeds the limit, otherwise None."""
        if self.total <= limit:
            return None
        return f"more than the allowed {format_size(limit)}; the largest arrays are {self.list_largest() or 'unknown'}"


def find_memory(info: PackageInfo, sizes: Mapping[str, int] | None = None) -> Memory:
    """Return the memory of a package that runs in as many threads as its target has cores.

    ``sizes`` are the bytes of its files by name, if mod.json has them not yet.
    """
    code = dict(sizes or {each.name: each.size for each in info.files})
    weights = code.pop("mod.params", 0)
    scratch = info.scratch.of_threads(default_threads(info, sys.maxsize)) if info.scratch else None
    return Memory(weights, info.workspace, sum(code.values()), info.target.on_gpu, scratch, info.largest)


def format_size(size: int) -> str:
    """Return a number of bytes as text: `14.0 MB`, and below 1 MB `20 kB`."""
    return f"{size / 1e6:.1f} MB" if size >= _MEGABYTE else f"{size / 1e3:.0f} kB"
