"""What `source:` of a model says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT
from tvmbuild.base.frozen_map import FrozenMap

MODEL_SUFFIXES = (".onnx", ".tflite", ".pt2")
"""Of files that a model can be read from."""


@dataclass(frozen=True)
class Extra:
    """What some sources need that `pip install tvmbuild` does not bring."""

    name: str
    """Of the extra: `pip install 'tvmbuild[hub]'`."""
    distributions: tuple[str, ...]
    what: str
    """Of what a user says: "a file of the Hub"."""

    def explain(self, missing: str) -> str:
        """Return why a source cannot be had, with the remedy."""
        return f"{self.what} needs {missing}, which is not installed; `pip install 'tvmbuild[{self.name}]'`"


HUB = Extra("hub", ("huggingface-hub",), "a file of the Hub")
TFLITE = Extra("tflite", ("tflite", "ai-edge-litert"), "a .tflite file")
TORCH = Extra("torch", ("torch", "onnxscript"), "a .pt2 file")
EXTRAS = (HUB, TFLITE, TORCH)
READERS = {".tflite": TFLITE, ".pt2": TORCH}
"""A model's suffix → what reads it."""


class Json(str):
    """Plain data as canonical JSON: text, so that it can be hashed."""

    __slots__ = ()


@dataclass(frozen=True)
class Source:
    """Where a file comes from, a model's first of all. ``sha256`` is the file's own.

    It is required of all that is downloaded; export has none.
    """

    kind: Literal["path", "url", "package", "export", "hub"]
    location: str
    """Path relative to the project's root; URL; ``name==version`` of a PyPI distribution; or the Hub's
    ``owner/repository``. For export: the path of the Python file."""
    file: str | None = None
    """For a package or a repository: the file's path in it."""
    sha256: str | None = None
    export: Export | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    revision: str | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """Of a repository: a branch, a tag or a commit; None: main."""

    def list_extras(self) -> tuple[Extra, ...]:
        """Return what has to be installed for it, and for the files that an export is given."""
        files = self.export.files if self.export else ()
        sources = (self, *(file.source for file in files))
        from_hub = any(source.kind == "hub" for source in sources)
        return (*((HUB,) if from_hub else ()), *self.list_readers())

    def list_readers(self) -> tuple[Extra, ...]:
        """Return what has to be installed to read the model itself."""
        reader = None if self.export else READERS.get(PurePosixPath(self.name_file()).suffix)
        return (reader,) if reader else ()

    def name_file(self) -> str:
        """Return the name that the file has where it comes from; in the cache it has none."""
        path = self.file or (unquote(urlsplit(self.location).path) if self.kind == "url" else self.location)
        return PurePosixPath(path).name or "file"


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
