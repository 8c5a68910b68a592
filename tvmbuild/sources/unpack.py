"""The extraction of one file from a wheel or an sdist, without trusting anything in it."""

from __future__ import annotations

import difflib
import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.url import MAX_BYTES

DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    RuntimeError,
)
"""The exceptions of reading a damaged archive. RuntimeError means encryption or an unknown compression."""


def extract_file(archive: Path, name: str, path: Path) -> Path:
    """Write the regular file ``name`` of ``archive`` (.whl, .zip, .tar.*) to ``path``, and return ``path``.

    Only that member's bytes are read, never a path from the archive, so that no member can be written elsewhere. In an
    sdist, ``name`` may leave out the single top folder. Raises TvmbuildError if the archive is damaged, has no such
    file, or the file is too large.
    """
    _check_name(name)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                infos = {info.filename: info for info in opened.infolist() if not info.is_dir()}
                member = infos[_find_member(list(infos), name, archive)]
                with opened.open(member) as stream:
                    _write(stream, path, name)
        else:
            with tarfile.open(archive) as tar:
                members = {info.name: info for info in tar if info.isreg()}
                found = tar.extractfile(members[_find_member(list(members), name, archive)])
                if found is None:
                    raise TvmbuildError(f"{name} in {archive.name} is not a regular file")
                with found:
                    _write(found, path, name)
    except DAMAGE as error:
        raise TvmbuildError(f"cannot read {archive.name}: {error}", "the download may be damaged: try again") from error
    return path


def _check_name(name: str) -> None:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise TvmbuildError(f"`file: {name}` is not a path inside a package", "give a relative path without `..`")


def _find_member(names: Sequence[str], name: str, archive: Path) -> str:
    if name in names:
        return name
    within = [n for n in names if n.partition("/")[2] == name]
    tops = {n.partition("/")[0] for n in names}
    if len(within) == 1 and len(tops) == 1:
        return within[0]
    base = PurePosixPath(name).name
    near = [n for n in names if PurePosixPath(n).name == base]
    near += [n for n in difflib.get_close_matches(name, names, n=5, cutoff=0.5) if n not in near]
    near += [n for n in names if n.endswith((".onnx", ".ort")) and n not in near]
    listed = ", ".join(near[:6])
    raise TvmbuildError(
        f"{archive.name} has no file {name}" + (f"; the nearest: {listed}" if listed else f" among its {len(names)}"),
        "correct `file:` in models.yaml",
    )


def _write(stream: IO[bytes], path: Path, name: str) -> None:
    """Copy the stream to ``path``, up to a limit, so that a small archive cannot fill the disk."""
    with path.open("wb") as out:
        shutil.copyfileobj(_Limited(stream, name), out, 1 << 20)


class _Limited:
    """A stream that refuses to give more than MAX_BYTES."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self._left = MAX_BYTES

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise TvmbuildError(f"{self._name} is larger than {MAX_BYTES >> 30} GiB")
        return block
