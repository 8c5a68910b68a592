"""The digests of a step's files. A file is hashed only if the file system says that its bytes may have changed.

The digests and the file's identity at that time are kept in the build folder, one file for each step. It is a cache: if
it is missing, as after an older tvmbuild, every file is hashed once.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from tvmbuild.base.files import identify, is_racy, sha256_file, write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep

Digest = tuple[int, int, str]
"""A file's size in bytes, its mtime in nanoseconds, and its SHA-256. The mtime is for people: `FileDigests.is_same`
does not compare it.
"""

_hashed: dict[tuple[Path, tuple[int, ...]], str] = {}
"""The hashes that this process has computed, by path and identity, because many steps share a file."""


class FileDigests:
    """The digests of one step's files; ``save`` keeps them for later processes."""

    def __init__(self, step: AnyStep) -> None:
        self._root = step.root
        self._file = Layout(step.root).digests(step.id)
        self._known = _read(self._file)
        self._has_new = False

    def digest(self, path: Path) -> Digest:
        """Return the digest of the file. Raises OSError if it cannot be read."""
        status = path.stat()
        return (status.st_size, status.st_mtime_ns, self._hash(path))

    def is_same(self, path: Path, known: Digest) -> bool:
        """Return whether the file has the bytes of the ``known`` digest. False if there is no file.

        The size is compared first, then the hash. Raises OSError if the file cannot be read.
        """
        try:
            return path.stat().st_size == known[0] and self._hash(path) == known[2]
        except FileNotFoundError:
            return False

    def save(self) -> None:
        """Write new digests to the build folder, if it can be written."""
        if self._has_new:
            with contextlib.suppress(OSError):
                write_json(self._file, self._known)
            self._has_new = False

    def _hash(self, path: Path) -> str:
        name = str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)
        identity = identify(path)
        known = self._known.get(name)
        if known is not None and known[:-1] == list(identity):
            return str(known[-1])
        settled = not is_racy(identity)  # checked before the bytes are read
        sha256 = _hashed.get((path, identity)) if settled else None
        sha256 = sha256 or sha256_file(path)
        if settled:
            _hashed[path, identity] = sha256
            self._known[name] = [*identity, sha256]
            self._has_new = True
        return sha256


def _read(path: Path) -> dict[str, list[object]]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    entries = value.items() if isinstance(value, dict) else ()
    return {name: entry for name, entry in entries if isinstance(entry, list) and entry}
