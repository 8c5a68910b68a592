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
    """Yield a temporary path in ``path``'s folder. On success it replaces ``path``, else it is removed.

    A reader never sees half a file, and an interrupted writer leaves ``path`` as it was.
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


@functools.cache  # reading the mask sets it for all threads: once is safe enough
def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_bytes(path: Path, data: bytes) -> None:
    """Publish ``data`` as ``path``."""
    with publish(path) as temporary:
        temporary.write_bytes(data)


def sync(path: Path) -> None:
    """Wait until the disk has the file and its name: a power failure after this loses neither."""
    for name in (path, path.parent):
        handle = os.open(name, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Publish ``text`` as ``path`` in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Publish ``value`` as pretty, sorted JSON with a final newline. Equal values give equal bytes."""
    write_text(path, pretty_json(value))


def pretty_json(value: object) -> str:
    """Return ``value`` as indented JSON with sorted keys."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False, default=_plain) + "\n"


def canonical_json(value: object) -> str:
    """Return ``value`` as JSON without spaces and with sorted keys, for digests."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> dict[object, object]:
    if not isinstance(value, FrozenMap):
        raise TypeError(f"{type(value).__name__} is no JSON value")
    return dict(value)


def sha256_file(path: Path) -> str:
    """Return the file's SHA-256 as 64 hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def identify(path: Path) -> tuple[int, ...]:
    """Return the file's identity, which changes with it: inode, size, and times of modification and change in ns.

    A program that replaces a file may keep its size and its time stamp (`rsync -t`, `cp -p`, tar, Nix, git-lfs), but no
    tool can keep inode and change time.
    """
    status = path.stat()
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_racy(identity: tuple[int, ...]) -> bool:
    """Return whether the file changed just now. Two changes within a tick of the clock would look like one."""
    return time.time_ns() - identity[3] < _RACY_NS


_RACY_NS = 2_000_000_000
