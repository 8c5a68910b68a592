"""The option `source:` of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT
from tvmbuild.base.frozen_map import FrozenMap

MODEL_SUFFIXES = (".onnx", ".tflite", ".pt2")
"""The suffixes of files from which a model can be read."""


@dataclass(frozen=True)
class Extra:
    """An extra of pip: distributions that some sources need and `pip install tvmbuild` does not install."""

    name: str
    """The name of the extra: `pip install 'tvmbuild[hub]'`."""
    distributions: tuple[str, ...]
    what: str
    """The source in the user's words: "a file of the Hub"."""

    def explain(self, missing: str) -> str:
        """Return the message that the source needs the distribution ``missing``, with the remedy."""
        return f"{self.what} needs {missing}, which is not installed; `pip install 'tvmbuild[{self.name}]'`"


HUB = Extra("hub", ("huggingface-hub",), "a file of the Hub")
TFLITE = Extra("tflite", ("tflite", "ai-edge-litert"), "a .tflite file")
TORCH = Extra("torch", ("torch", "onnxscript"), "a .pt2 file")
EXTRAS = (HUB, TFLITE, TORCH)
READERS = {".tflite": TFLITE, ".pt2": TORCH}
"""A model's suffix → the extra that reads it."""


class Json(str):
    """Plain data as canonical JSON text, so that it can be hashed."""

    __slots__ = ()


@dataclass(frozen=True)
class Source:
    """The origin of a file, usually of a model.

    ``sha256`` is the digest of the file itself. Every download requires it, and an export has none.
    """

    kind: Literal["path", "url", "package", "export", "hub"]
    location: str
    """A path relative to the project's root, a URL, a PyPI ``name==version``, or the Hub's ``owner/repository``.

    For an export it is the path of the Python file.
    """
    file: str | None = None
    """The path of the file inside the package or the Hub's repository."""
    sha256: str | None = None
    export: Export | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    revision: str | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The branch, tag or commit of the Hub's repository, or None for main."""

    def list_extras(self) -> tuple[Extra, ...]:
        """Return the extras that are needed to fetch the source, with an export's files, and to read the model."""
        files = self.export.files if self.export else ()
        sources = (self, *(file.source for file in files))
        from_hub = any(source.kind == "hub" for source in sources)
        return (*((HUB,) if from_hub else ()), *self.list_readers())

    def list_readers(self) -> tuple[Extra, ...]:
        """Return the extra that reads the model's format, or nothing for ONNX files and exports."""
        reader = None if self.export else READERS.get(PurePosixPath(self.name_file()).suffix)
        return (reader,) if reader else ()

    def name_file(self) -> str:
        """Return the file's name at its origin. In the cache the file is named by its digest."""
        path = self.file or (unquote(urlsplit(self.location).path) if self.kind == "url" else self.location)
        return PurePosixPath(path).name or "file"


@dataclass(frozen=True)
class Export:
    """The function, in a Source's Python file, that returns the model. It is called with keyword arguments."""

    function: str
    arguments: FrozenMap[str, Json] = FrozenMap()
    """The arguments that are plain data, sorted by name. ``files`` are sorted by name, too."""
    files: tuple[ExportFile, ...] = ()


@dataclass(frozen=True)
class ExportFile:
    """An argument that is a file. The function gets the file's path."""

    name: str
    source: Source
