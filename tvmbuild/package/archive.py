"""Write, read and verify a package: a USTAR archive whose bytes depend on its contents alone."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tvmbuild.base.file_kinds import recognise_wrapping
from tvmbuild.base.files import pretty_json, write_bytes
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import FileEntry, PackageInfo
from tvmbuild.package.ustar import DamagedArchiveError, read_members

LIBRARY = "mod.so"
PARAMS = "mod.params"
METADATA = "mod.json"
_NAMES = frozenset({LIBRARY, PARAMS, METADATA})
MAX_BYTES = 4 << 30
"""A package is read whole."""
MAX_METADATA_BYTES = 64 << 20
_REMEDY = "if it is a package, copy it or build it again"


@dataclass(frozen=True)
class Package:
    """A verified package, in memory."""

    info: PackageInfo
    library: bytes
    params: bytes
    """Empty when the weights are inside the library."""


def write_package(path: Path, package: Package) -> None:
    """Publish the archive; ``info.files`` is filled in here. The same package is the same bytes."""
    contents = {LIBRARY: package.library, PARAMS: package.params}
    entries = tuple(FileEntry(name, _digest(data), len(data)) for name, data in sorted(contents.items()))
    metadata = pretty_json(replace(package.info, files=entries).to_json()).encode()
    write_bytes(path, _archive({**contents, METADATA: metadata}))


def read_package(path: Path) -> Package:
    """Read the archive and verify names, kinds, sizes and digests of its members; damage is a TvmbuildError."""
    contents = _members(path)
    try:
        info = PackageInfo.from_json(json.loads(contents[METADATA]))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"{METADATA} is no JSON: {error}") from error
    except TvmbuildError as error:
        raise _damaged(path, error.message) from error
    if {entry.name for entry in info.files} != set(contents) - {METADATA}:
        raise _damaged(path, f"{METADATA} lists other files than the archive holds")
    for entry in info.files:
        data = contents[entry.name]
        if len(data) != entry.size or _digest(data) != entry.sha256:
            raise _damaged(path, f"{entry.name} is not the file that {METADATA} describes")
    return Package(info, contents[LIBRARY], contents[PARAMS])


def read_metadata(path: Path) -> PackageInfo:
    """Verify the archive and return what its mod.json says."""
    return read_package(path).info


def extract_package(path: Path, folder: Path) -> PackageInfo:
    """Verify the archive, then write its three files into ``folder``."""
    package = read_package(path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LIBRARY).write_bytes(package.library)
    (folder / PARAMS).write_bytes(package.params)
    (folder / METADATA).write_text(pretty_json(package.info.to_json()), encoding="utf-8")
    return package.info


def _archive(contents: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(contents.items()):
            member = tarfile.TarInfo(name)  # mtime, uid and gid are 0, the names empty
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _members(path: Path) -> dict[str, bytes]:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        contents = read_members(data, _NAMES) if len(data) <= MAX_BYTES else {}
    except FileNotFoundError as error:
        raise TvmbuildError(f"{path.name}: no such package", "build it first") from error
    except OSError as error:
        raise TvmbuildError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except DamagedArchiveError as error:
        raise _damaged(path, str(error)) from error
    if len(data) > MAX_BYTES:
        raise TvmbuildError(f"{path.name} is no package: it is larger than {MAX_BYTES >> 30} GiB")
    missing = sorted(_NAMES - set(contents))
    if missing:
        raise _damaged(path, f"{', '.join(missing)} missing")
    if len(contents[METADATA]) > MAX_METADATA_BYTES:
        raise _damaged(path, f"{METADATA} is larger than {MAX_METADATA_BYTES >> 20} MiB")
    return {name: bytes(member) for name, member in contents.items()}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _damaged(path: Path, reason: str) -> TvmbuildError:
    kind = recognise_wrapping(path)
    if kind is not None:
        return TvmbuildError(f"{path.name} is no package: it is {kind.name}", kind.remedy)
    return TvmbuildError(f"{path.name} is damaged: {reason}", _REMEDY)
