"""The memory that a package takes, beside the runtime's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvmbuild.package.metadata import PackageInfo


@dataclass(frozen=True)
class Memory:
    """The memory of a package in bytes."""

    weights: int
    """On a CPU these are pages of the package's file, which all sessions and processes share."""
    workspace: int | None
    """The memory for the values between the operators and for the outputs. None: the package is too old to say it."""
    code: int
    on_gpu: bool = False
    """Whether weights and workspace are in the memory of a GPU. The code that launches the kernels is on the host."""

    @property
    def total(self) -> int:
        """The sum."""
        return self.weights + (self.workspace or 0) + self.code

    def describe(self) -> str:
        """Return the parts in words, the largest first: `weights 14.0 MB, workspace 7.2 MB, code 0.3 MB`."""
        parts = {"weights": self.weights, "workspace": self.workspace, "code": self.code}
        known = sorted(((size, name) for name, size in parts.items() if size is not None), reverse=True)
        told = [f"{name} {format_size(size)}" for size, name in known]
        where = "; weights and workspace on the GPU" if self.on_gpu else ""
        return ", ".join([*told, *(["workspace unknown"] if self.workspace is None else [])]) + where


def find_memory(info: PackageInfo, sizes: Mapping[str, int] | None = None) -> Memory:
    """Return the memory of a package. ``sizes`` are the bytes of its files by name, if mod.json has them not yet."""
    code = dict(sizes or {each.name: each.size for each in info.files})
    weights = code.pop("mod.params", 0)
    return Memory(weights, info.workspace, sum(code.values()), info.target.on_gpu)


def format_size(size: int) -> str:
    """Return a number of bytes as text: `14.0 MB`."""
    return f"{size / 1e6:.1f} MB"
