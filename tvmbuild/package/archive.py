"""Writing, reading and verification of packages: USTAR archives whose bytes depend only on their contents."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.mapped_file import MappedFile, map_file
from tvmbuild.package.metadata import FileEntry, PackageInfo

if TYPE_CHECKING:
    import tarfile

    from tvmbuild.base import file_kinds, files, source_specs
    from tvmbuild.package import size_functions
else:  # for writing packages, for those with sizes, and for messages
    tarfile = import_lazily("tarfile")
    file_kinds = import_lazily("tvmbuild.base.file_kinds")
    files = import_lazily("tvmbuild.base.files")
    source_specs = import_lazily("tvmbuild.base.source_specs")
    size_functions = import_lazily("tvmbuild.package.size_functions")

LIBRARY = "mod.so"
PARAMS = "mod.params"
METADATA = "mod.json"
PACK = "pack.json"
"""The first member of a pack (`package.pack`), which lists its packages."""
_NAMES = frozenset({LIBRARY, PARAMS, METADATA})
MAX_BYTES = 4 << 30
"""The size limit of a package in bytes."""
MAX_METADATA_BYTES = 64 << 20
_REMEDY = "if it is a package, copy it or build it again"


@dataclass(frozen=True)
class Package:
    """A verified package in memory."""

    info: PackageInfo
    """The contents of mod.json."""
    library: bytes
    """The contents of mod.so: the compiled code."""
    params: bytes | memoryview
    """The contents of mod.params: the weights. Empty if the weights are inside the library."""
    others: FrozenMap[str, bytes] = FrozenMap()
    """The libraries of the sizes that are not the largest, by name."""
    places: tuple[int, ...] | None = None
    """The places of its weights among those in ``params``, which it shares with others of a pack. None: all."""

    @property
    def contents(self) -> Mapping[str, bytes | memoryview]:
        """The files beside mod.json, by name."""
        return {LIBRARY: self.library, PARAMS: self.params, **self.others}


def write_package(path: Path, package: Package) -> None:
    """Write the package's archive to ``path``, with the sizes and digests of its files in mod.json.

    The file appears at once, complete. Equal packages give equal bytes.
    """
    contents = {name: bytes(data) for name, data in package.contents.items()}
    entries = tuple(FileEntry(name, _digest(data), len(data)) for name, data in sorted(contents.items()))
    metadata = files.pretty_json(replace(package.info, files=entries).to_json()).encode()
    files.write_bytes(path, make_archive(dict(sorted({**contents, METADATA: metadata}.items()))))


def read_package(path: Path) -> Package:
    """Read a package and verify the names, kinds, sizes and digests of its members.

    Raises TvmbuildError if the file is missing, unreadable, damaged or not a package.
    """
    package, _ = map_package(path)
    return replace(package, params=bytes(package.params))


def map_package(path: Path) -> tuple[Package, MappedFile]:
    """Verify a package as ``read_package`` does. Its ``params`` are in the file, which is mapped, and not copied."""
    file = map_archive(path)
    return check_package(path, _members(path, file.data)), file


class EarlyMap:
    """A package that a thread maps and verifies, while the caller imports the modules that will run it."""

    def __init__(self, path: Path) -> None:
        """Start the thread. It reads the file at once, so a slow disk works during the imports, too."""
        self._path = path
        self._result: tuple[Package, MappedFile] | BaseException | None = None
        self._thread = Thread(target=self._work, name="tvmbuild-verify")
        with suppress(RuntimeError):  # there is too little memory for a thread
            self._thread.start()

    def map(self) -> tuple[Package, MappedFile]:
        """Wait for the package and return it with its mapped file. Raises TvmbuildError as ``map_package`` does."""
        if self._thread.ident is not None:
            self._thread.join()
        if self._result is None:
            return map_package(self._path)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def _work(self) -> None:
        try:
            self._result = map_package(self._path)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self._result = error


def check_package(path: Path, contents: Mapping[str, memoryview], *, with_params: bool = True) -> Package:
    """Verify the members of a package and return it. Only ``with_params`` is mod.params compared with its digest.

    ``path`` is for messages. Raises TvmbuildError if a member is not the one that mod.json describes.
    """
    try:
        info = PackageInfo.from_json(json.loads(bytes(contents[METADATA])))
    except (ValueError, RecursionError) as error:
        raise explain_damage(path, f"{METADATA} is not JSON: {error}") from error
    except TvmbuildError as error:
        raise explain_damage(path, error.message) from error
    if {entry.name for entry in info.files} != set(contents) - {METADATA}:
        raise explain_damage(path, f"{METADATA} lists other files than the archive holds")
    for entry in info.files:
        data = contents[entry.name]
        if entry.name == PARAMS and not with_params:
            continue
        if len(data) != entry.size or _digest(data) != entry.sha256:
            raise explain_damage(path, f"{entry.name} is not the file that {METADATA} describes")
    others = {each.library for each in info.sizes.functions[:-1]} if info.sizes else set[str]()
    if others != set(contents) - _NAMES:
        raise explain_damage(path, f"{METADATA} lists other sizes than the archive holds")
    libraries = FrozenMap((name, bytes(contents[name])) for name in sorted(others))
    return Package(info, bytes(contents[LIBRARY]), contents[PARAMS], libraries)


def is_pack(path: Path) -> bool:
    """Return whether the file begins as a pack does."""
    try:
        with path.open("rb") as file:
            return _begins_pack(file.read(100))
    except OSError:
        return False


def _begins_pack(begin: bytes) -> bool:
    return begin.rstrip(b"\0") == PACK.encode()


def read_metadata(path: Path) -> PackageInfo:
    """Verify a package and return the contents of its mod.json. Raises TvmbuildError like :func:`read_package`."""
    return read_package(path).info


def extract_package(path: Path, folder: Path) -> PackageInfo:
    """Verify a package, write its files into ``folder``, and return the contents of its mod.json.

    Raises TvmbuildError like :func:`read_package`.
    """
    package = read_package(path)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in package.contents.items():
        (folder / name).write_bytes(data)
    (folder / METADATA).write_text(files.pretty_json(package.info.to_json()), encoding="utf-8")
    return package.info


def make_archive(contents: Mapping[str, bytes]) -> bytes:
    """Return a tar archive with these members in the map's order. Equal contents give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in contents.items():
            member = tarfile.TarInfo(name)  # mtime, uid and gid are 0, the names empty
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def map_archive(path: Path) -> MappedFile:
    """Map a package's file. Raises TvmbuildError if it cannot be read or is too large for a package."""
    try:
        file = map_file(path)
    except FileNotFoundError as error:
        raise TvmbuildError(f"{path.name}: no such package", "build it first") from error
    except OSError as error:
        raise TvmbuildError(f"{path.name} cannot be read: {error.strerror or error}") from error
    if len(file.data) > MAX_BYTES:
        raise TvmbuildError(f"{path.name} is not a package: it is larger than {MAX_BYTES >> 30} GiB")
    return file


def _members(path: Path, data: memoryview) -> dict[str, memoryview]:
    try:
        contents = read_members(data)
    except DamagedArchiveError as error:
        if _begins_pack(bytes(data[:100])):
            remedy = "`tvmbuild.load` chooses one of them; elsewhere name one of the packages in it"
            raise TvmbuildError(f"{path.name} is a pack of several packages", remedy) from error
        raise explain_damage(path, str(error)) from error
    missing = sorted(_NAMES - set(contents))
    if missing:
        raise explain_damage(path, f"{', '.join(missing)} missing")
    if len(contents[METADATA]) > MAX_METADATA_BYTES:
        raise explain_damage(path, f"{METADATA} is larger than {MAX_METADATA_BYTES >> 20} MiB")
    return contents


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def explain_damage(path: Path, reason: str) -> TvmbuildError:
    """Return the error for a file that is damaged or is not a package."""
    kind = file_kinds.recognise_wrapping(path)
    if kind is not None:
        return TvmbuildError(f"{path.name} is not a package: it is {kind.name}", kind.remedy)
    if path.suffix in source_specs.MODEL_SUFFIXES:
        return TvmbuildError(f"{path.name} is a model, not a package", "`tvmbuild compile` makes a package of it.")
    return TvmbuildError(f"{path.name} is damaged: {reason}", _REMEDY)


# This reader accepts only plain tar archives, as packages are: no links, no sparse files, no extensions. Python's
# tarfile trusts headers that claim more than the file holds: sparse files of any size, and negative sizes, on which it
# loops for ever. `cpp/parts/archive.h` reads the same way: change both.

_BLOCK = 512
_REGULAR = b"0\0"


class DamagedArchiveError(ValueError):
    """The error for an archive that is damaged or has unexpected members. Its text gives the reason."""


def is_member(name: str) -> bool:
    """Return whether a package may have a file of this name: a plain one, so that it cannot leave the folder."""
    return name in _NAMES or size_functions.is_library(name)


def read_members(data: bytes | memoryview, is_expected: Callable[[str], bool] = is_member) -> dict[str, memoryview]:
    """Return the members of an archive by name.

    Raises DamagedArchiveError if the archive is damaged, or if a member is not a regular file of a
    package.
    """
    members: dict[str, memoryview] = {}
    view = memoryview(data)
    position = 0
    while position + _BLOCK <= len(data) and any(view[position : position + _BLOCK]):
        header = bytes(view[position : position + _BLOCK])
        name, size = _read_header(header)
        if not is_expected(name) or name in members or header[156] not in _REGULAR:
            raise DamagedArchiveError(f"unexpected member {name!r}")
        position += _BLOCK
        if position + size > len(data):
            raise DamagedArchiveError(f"{name} is cut short")
        members[name] = view[position : position + size]
        position += (size + _BLOCK - 1) // _BLOCK * _BLOCK
    if not members:
        raise DamagedArchiveError("no readable archive: it begins with no file")
    if position >= len(data):
        raise DamagedArchiveError("no readable archive: it has no end")
    return members


def _read_header(header: bytes) -> tuple[str, int]:
    checked = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    if header[257:262] != b"ustar" or _octal(header[148:156]) != checked:
        raise DamagedArchiveError("no readable archive: a header is damaged")
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    size = _octal(header[124:136])
    if size is None:
        raise DamagedArchiveError("no readable archive: a header is damaged")
    return (prefix + b"/" * bool(prefix) + name).decode(errors="replace"), size


def _octal(field: bytes) -> int | None:
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and all(digit in b"01234567" for digit in digits) else None
