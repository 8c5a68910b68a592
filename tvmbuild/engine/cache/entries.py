"""A folder of steps' outputs, shared by clones and machines: one file per entry, checked on reading, bounded in size.

The name of an entry holds its key and the digest of its first line, the manifest. The bytes of the outputs follow the
manifest. Every byte is therefore checked against the name, a reader sees a whole entry or none, and no lock is needed,
not even on shared folders. Whoever can write to the folder decides which files are restored: packages are code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tvmbuild.base.files import canonical_json, publish

FORMAT = 1
FOLDER = "steps"
"""The subfolder of entries, so that no other file in the cache's folder is taken for an entry."""
NAME = re.compile(r"([0-9a-f]{64})-([0-9a-f]{16})\.step")
LEFTOVER = re.compile(r"\.[0-9a-f]{64}-[0-9a-f]{16}\.step\..+\.tmp")
OLD_S = 24 * 3600.0
"""The age in seconds at which a temporary file is assumed to have lost its writer."""
BLOCK = 1 << 20
MAX_MANIFEST = 1 << 20


class DamagedEntry(Exception):  # noqa: N818 - the name says what the entry is
    """The error that an entry's bytes do not match its name."""


class EntryTooLarge(Exception):  # noqa: N818 - as above
    """The error that one entry alone exceeds the cache's limit."""


@dataclass(frozen=True)
class Content:
    """One output as the manifest describes it: its role, its size in bytes and its SHA-256."""

    role: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Usage:
    """The number of entries in the folder, and their size."""

    entries: int
    size: int
    """The size of all entries, in bytes."""


@dataclass(frozen=True)
class _Found:
    used: float
    """The time when the entry was last stored or restored, in seconds since the epoch."""
    size: int
    path: Path


def find_entries(folder: Path, key: str) -> list[Path]:
    """Return the entries of the key, the last used first. Raises OSError if the folder cannot be read."""
    found = [entry for entry in _scan(_shelf(folder, key)) if entry.path.name.startswith(key)]
    return [entry.path for entry in sorted(found, key=lambda entry: entry.used, reverse=True)]


def read_entry(entry: Path, paths: Mapping[str, Path]) -> None:
    """Write the entry's outputs to ``paths`` (role → path) and check their digests.

    Raises DamagedEntry if the entry does not match its name or has other roles. The written files are then worthless.
    """
    with entry.open("rb") as stream:
        for content in _read_manifest(entry, stream, set(paths)):
            with paths[content.role].open("wb") as output:
                _copy_checked(stream, output, content)
        if stream.read(1):
            raise DamagedEntry(f"{entry} is longer than its outputs")


def touch_entry(entry: Path) -> None:
    """Record that the entry was used now, if it can be written."""
    with contextlib.suppress(OSError):
        os.utime(entry)


def write_entry(folder: Path, key: str, outputs: Mapping[str, tuple[Path, str]], limit: int) -> bool:
    """Publish the outputs (role → path, SHA-256) under the key. Then evict old entries beyond ``limit`` bytes.

    Return False, and publish nothing, if a file no longer has its digest. Raises EntryTooLarge if the outputs alone
    exceed the limit, and OSError if writing fails.
    """
    contents = [Content(role, path.stat().st_size, digest) for role, (path, digest) in sorted(outputs.items())]
    manifest = _make_manifest(key, contents)
    if len(manifest) + sum(content.size for content in contents) > limit:
        raise EntryTooLarge
    entry = _shelf(folder, key) / f"{key}-{hashlib.sha256(manifest).hexdigest()[:16]}.step"
    try:
        with publish(entry) as temporary, temporary.open("wb") as stream:
            stream.write(manifest)
            for content in contents:
                with outputs[content.role][0].open("rb") as source:
                    _copy_checked(source, stream, content)
    except DamagedEntry:
        return False  # the file was changed since it was digested
    evict(folder, limit)
    return True


def measure_usage(folder: Path) -> Usage:
    """Return the number and the size of all entries. Raises OSError if the folder cannot be read."""
    found = _scan_all(folder)
    return Usage(len(found), sum(entry.size for entry in found))


def evict(folder: Path, limit: int) -> None:
    """Remove the least recently used entries until the rest fits ``limit`` bytes. Remove files of killed writers.

    Several processes may do this at once: an entry that is already gone counts as removed.
    """
    found = sorted(_scan_all(folder), key=lambda entry: entry.used)
    total = sum(entry.size for entry in found)
    for entry in found:
        if total <= limit:
            break
        entry.path.unlink(missing_ok=True)
        total -= entry.size
    for shelf in _list_shelves(folder):
        for path in shelf.iterdir():
            if LEFTOVER.fullmatch(path.name):
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime < time.time() - OLD_S:
                        path.unlink()


def _make_manifest(key: str, contents: list[Content]) -> bytes:
    rows = [{"role": content.role, "size": content.size, "sha256": content.sha256} for content in contents]
    return canonical_json({"format": FORMAT, "key": key, "outputs": rows}).encode() + b"\n"


def _read_manifest(entry: Path, stream: IO[bytes], roles: set[str]) -> list[Content]:
    name = NAME.fullmatch(entry.name)
    line = stream.readline(MAX_MANIFEST)
    if name is None or hashlib.sha256(line).hexdigest()[:16] != name[2]:
        raise DamagedEntry(f"{entry}: its manifest is not that of its name")
    try:
        manifest = json.loads(line)
        contents = [Content(str(row["role"]), int(row["size"]), str(row["sha256"])) for row in manifest["outputs"]]
        known = (manifest["format"], manifest["key"]) == (FORMAT, name[1])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DamagedEntry(f"{entry}: its manifest cannot be read") from error
    if not known or len(contents) != len(roles) or {content.role for content in contents} != roles:
        raise DamagedEntry(f"{entry}: its manifest is of another step")
    return contents


def _copy_checked(source: IO[bytes], output: IO[bytes], content: Content) -> None:
    """Copy the bytes of one output. Raises DamagedEntry if they are fewer than its size or have another digest."""
    digest, left = hashlib.sha256(), content.size
    while left > 0 and (block := source.read(min(BLOCK, left))):
        digest.update(block)
        output.write(block)
        left -= len(block)
    if left != 0 or digest.hexdigest() != content.sha256:
        raise DamagedEntry(f"{content.role} has other bytes than its digest")


def _shelf(folder: Path, key: str) -> Path:
    """Return the subfolder of the key's entries, because one folder for all keys would be slow to list."""
    return folder / FOLDER / key[:2]


def _list_shelves(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in (folder / FOLDER).iterdir() if re.fullmatch(r"[0-9a-f]{2}", path.name))
    except FileNotFoundError:
        return []


def _scan_all(folder: Path) -> list[_Found]:
    return [entry for shelf in _list_shelves(folder) for entry in _scan(shelf)]


def _scan(shelf: Path) -> list[_Found]:
    found = []
    try:
        with os.scandir(shelf) as entries:
            for entry in entries:
                if NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        found.append(_Found(status.st_mtime, status.st_size, Path(entry.path)))
    except FileNotFoundError:
        return []
    return found
