"""A step in transit to another machine and back: its files as bytes, by their paths relative to the project."""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from tvmbuild.base.files import publish, remove_leftovers
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.steps import AnyStep
from tvmbuild.errors import TvmbuildError

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Parcel:
    """A step as in the project, and the paths of its inputs, whose bytes travel beside it in this order."""

    step: AnyStep
    paths: tuple[str, ...]
    topic: str = ""
    """The Dask topic to which the worker sends progress."""


@dataclass(frozen=True)
class Outcome:
    """The result of a step that ran on another machine."""

    outputs: Files = field(default_factory=dict)
    """The bytes of the outputs by role. Empty for a failed step, unless the failure is a VerdictError."""
    changed: Files = field(default_factory=dict)
    """The bytes of the other files that the step has written, by path relative to the project."""
    removed: tuple[str, ...] = ()
    log: bytes = b""
    error: TvmbuildError | None = None


def name_of(path: Path, step: AnyStep) -> str:
    """Return the path relative to the step's project. For a file outside the project it begins with `..`."""
    return os.path.relpath(path, step.root)


def unpack(parcel: Parcel, contents: Iterable[bytes], folder: Path) -> AnyStep:
    """Write the inputs into a new project below ``folder``. Return the step with its paths there."""
    depth = max((Path(name).parts.count("..") for name in parcel.paths), default=0)
    root = folder.joinpath(*["outside"] * depth, "project")
    step = parcel.step

    def move(files: Mapping[str, Path]) -> FrozenMap[str, Path]:
        return FrozenMap({role: Path(os.path.normpath(root / name_of(path, step))) for role, path in files.items()})

    root.mkdir(parents=True)
    write_files(root, dict(zip(parcel.paths, contents, strict=True)))
    settings = replace(step.settings, cache=None)
    return replace(step, root=root, inputs=move(step.inputs), outputs=move(step.outputs), settings=settings)


def write_files(root: Path, files: Files) -> None:
    """Write the files below ``root``. They are not published atomically, because nobody else reads them yet."""
    for name, data in files.items():
        path = Path(os.path.normpath(root / name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def read_files(root: Path, places: Iterable[Path]) -> dict[str, bytes]:
    """Return the bytes of the files at and below ``places``, without hidden files, by path relative to ``root``."""
    found = [path for place in places for path in ((place,) if place.is_file() else place.rglob("*"))]
    files = sorted(path for path in found if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def publish_outputs(step: AnyStep, outputs: Files) -> None:
    """Publish all outputs of the step, or none if there is an error."""
    for path in step.outputs.values():
        remove_leftovers(path)
    with ExitStack() as stack:
        for role, path in step.outputs.items():
            stack.enter_context(publish(path)).write_bytes(outputs[role])


def compress(files: Files) -> bytes:
    """Return the files as one compressed byte string. Equal files give equal bytes."""
    return zlib.compress(pickle.dumps(sorted(files.items())), level=1)


def decompress(data: bytes) -> dict[str, bytes]:
    """Return the files from the output of `compress`."""
    return dict(pickle.loads(zlib.decompress(data)))  # noqa: S301 - our own client or worker has sent it
