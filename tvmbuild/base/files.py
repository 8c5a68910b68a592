"""Atomic publishing of files, digests, and canonical JSON."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvmbuild.base.frozen_map import FrozenMap


@contextmanager
def publish(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and replace ``path`` by the temporary file at the end.

    If an exception ends the context, the temporary file is removed. A reader never sees half a file, and an interrupted
    writer leaves ``path`` as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files that killed writers of ``path`` left beside it. No writer may be active."""
    for temporary in path.parent.glob(f".{path.name}.*.tmp"):
        temporary.unlink(missing_ok=True)


@functools.cache  # the mask can only be read by setting it for all threads, so it is read once
def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` by `publish`."""
    with publish(path) as temporary:
        temporary.write_bytes(data)


def sync(path: Path) -> None:
    """Wait until the file and its name are on disk, so that a power failure loses neither."""
    for name in (path, path.parent):
        handle = os.open(name, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` in UTF-8 to ``path`` by `publish`."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Write ``value`` to ``path`` by `publish`, in the form of `pretty_json`. Equal values give equal bytes."""
    write_text(path, pretty_json(value))


def pretty_json(value: object) -> str:
    """Return ``value`` as indented JSON with sorted keys and a final newline."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False, default=_plain) + "\n"


def canonical_json(value: object) -> str:
    """Return ``value`` as JSON without spaces and with sorted keys, for digests."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> dict[object, object]:
    if not isinstance(value, FrozenMap):
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    return dict(value)


def sha256_file(path: Path) -> str:
    """Return the file's SHA-256 as 64 hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def identify(path: Path) -> tuple[int, ...]:
    """Return the file's identity, which changes with the file: inode, size, modification time and change time in ns.

    A program that replaces a file may keep its size and its modification time (`rsync -t`, `cp -p`, tar, Nix, git-lfs),
    but no tool can keep inode and change time.
    """
    status = path.stat()
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_racy(identity: tuple[int, ...]) -> bool:
    """Return whether the file changed within the last 2 s, so that its identity may miss another change.

    Two changes within one tick of the file system's clock have the same time.
    """
    return time.time_ns() - identity[3] < _RACY_NS


_RACY_NS = 2_000_000_000
