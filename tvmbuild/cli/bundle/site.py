"""The Python packages of a bundle: wheels for the other machine's Python, unpacked and compressed together.

TVM's compiler alone has 250 MB, and LZMA compresses it to a fifth.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import re
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Container, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path

import tvmbuild
from tvmbuild.base.capabilities import installed_version
from tvmbuild.base.files import publish
from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.layout import cache_dir
from tvmbuild.base.nvrtc import DISTRIBUTIONS
from tvmbuild.base.pip_download import download_command, foreign_options
from tvmbuild.base.progress import report_progress
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.native_build import RUNTIMES, place_prebuilt

SITE = "site.tar.xz"
EVERY_S = 5.0
"""The seconds between two progress messages."""
_TOP = "tvmbuild"
_PACKAGE = Path(tvmbuild.__file__).parent
_ONLY_HERE = frozenset({"onnxsim", "unearth", "pillow", "ziglang"})
"""Packages that stay here: models are simplified before they travel, and the other machine's own compiler links."""
_UNUSED = re.compile(r"tvm/(3rdparty|src|web|include|lib64)/|.*/(tests?|testing/data)/|.*\.(pyi|cu|cuh)$")


def pack_site(folder: Path, python: str, machine: str, have: frozenset[str]) -> Path:
    """Return an archive of tvmbuild's dependencies for that machine and version of Python.

    The archive is in the user's cache and is made once for the same versions. ``have`` are the distributions that the
    machine has already. Wheels are downloaded into ``folder``.
    """
    needed = list_needed(have)
    key = hashlib.sha256("\n".join((*needed, python, machine)).encode()).hexdigest()[:16]
    kept = cache_dir() / "bundles" / f"{key}.tar.xz"
    if kept.exists():
        return kept
    wheels = _download(folder, needed, python, machine) if needed else []
    if wheels:
        report_progress("compressing them: two minutes or more, once for these versions")
    with publish(kept) as made, tarfile.open(made, "w:xz", preset=6) as archive:
        packed = _Counter(wheels)
        for wheel in wheels:
            _add_wheel(archive, wheel, packed)
    return kept


class _Counter:
    """A counter of compressed bytes that reports the progress every EVERY_S seconds."""

    def __init__(self, wheels: Sequence[Path]) -> None:
        self._wheels, self._done = wheels, 0
        self._said = time.monotonic()

    @cached_property
    def _whole(self) -> int:
        return sum(entry.file_size for wheel in self._wheels for entry in _list_entries(wheel))

    def add(self, size: int) -> None:
        """Count ``size`` more bytes, and report the progress if it is time."""
        self._done += size
        if time.monotonic() - self._said >= EVERY_S:
            self._said = time.monotonic()
            report_progress(f"compressed {self._done / 1e6:.0f} of {self._whole / 1e6:.0f} MB")


class _Counted(BytesIO):
    """A file in memory that counts the bytes read, because tarfile reads it piece by piece."""

    def __init__(self, data: bytes, counter: _Counter) -> None:
        super().__init__(data)
        self._counter = counter

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes and count them."""
        piece = super().read(size)
        self._counter.add(len(piece))
        return piece


def list_needed(have: frozenset[str]) -> tuple[str, ...]:
    """Return `name==version` of all installed packages that tvmbuild needs to tune and time, except ``have``."""
    absent = {_normal(name) for name in have} | _ONLY_HERE
    found: dict[str, str] = {}
    waiting = [_TOP, *DISTRIBUTIONS]  # older installations of tvmbuild list DISTRIBUTIONS as an extra only
    while waiting:
        name = waiting.pop()
        version = installed_version(name)
        if name in absent or name in found or version is None:
            continue
        found[name] = version
        requirements = importlib.metadata.requires(name) or []
        waiting += [
            _normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in requirements if "extra ==" not in line
        ]
    del found[_TOP]
    return tuple(sorted(f"{name}=={version}" for name, version in found.items()))


def find_runtimes(machine: str, kinds: Container[str]) -> list[tuple[Path, Path]]:
    """Return tvmbuild's CUDA and Vulkan runtimes that the targets need, compiled for the machine of the bundle.

    Each comes with its relative path in the tvmbuild package. They are compiled here, so that the other machine needs
    no compiler for them.
    """
    from tvmbuild.package.runtime.native_library import find_library  # noqa: PLC0415 - it imports tvm_ffi

    known, wanted = machine_of(machine), [each for each in RUNTIMES if each.kind in kinds]
    return [(find_library(each, known), place_prebuilt(each, known).relative_to(_PACKAGE)) for each in wanted]


def add_package(archive: tarfile.TarFile, *libraries: tuple[Path, Path]) -> None:
    """Add this installation of tvmbuild, with the metadata that tell doit its state backend.

    ``libraries`` are compiled for the other machine. Each comes with its relative path in the package.
    """
    for path in sorted(_PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so":
            _add(archive, f"site/tvmbuild/{path.relative_to(_PACKAGE).as_posix()}", path.read_bytes())
    for library, place in libraries:
        _add(archive, f"site/tvmbuild/{place.as_posix()}", library.read_bytes())
    own = importlib.metadata.distribution(_TOP)
    folder = f"site/tvmbuild-{own.version}.dist-info"
    metadata = own.read_text("METADATA") or own.read_text("PKG-INFO") or ""
    _add(archive, f"{folder}/METADATA", metadata.encode())
    _add(archive, f"{folder}/entry_points.txt", (own.read_text("entry_points.txt") or "").encode())


def _download(folder: Path, needed: tuple[str, ...], python: str, machine: str) -> list[Path]:
    report_progress(f"downloading {len(needed)} wheels for Python {python} on {machine}")
    command = download_command(folder, "--quiet", "--no-deps", *foreign_options(machine, python))
    # TMPDIR is the folder, so that files that pip leaves after Ctrl-C are removed with the folder.
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        [*command, *needed], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as pip:
        said = _follow(pip, folder)
    if pip.returncode != 0:
        raise TvmbuildError(f"pip cannot download the wheels: {said}", "name what the other machine has: --have NAME,…")
    return sorted(folder.glob("*.whl"))


def _follow(pip: subprocess.Popen[str], folder: Path) -> str:
    """Wait for pip, and report regularly how much it has downloaded. Return the last line of its errors."""
    try:
        while (errors := _wait(pip)) is None:
            report_progress(f"downloaded {_measure(folder) / 1e6:.0f} MB")
    except BaseException:
        pip.kill()
        raise
    return (errors.strip().splitlines() or ["no output"])[-1]


def _wait(pip: subprocess.Popen[str]) -> str | None:
    try:
        return pip.communicate(timeout=EVERY_S)[1]
    except subprocess.TimeoutExpired:
        return None


def _measure(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # pip moves files meanwhile
            size += path.stat().st_size if path.is_file() else 0
    return size


def _list_entries(wheel: Path) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(wheel) as packed:
        entries = packed.infolist()
    return [entry for entry in entries if not entry.is_dir() and not _UNUSED.match(entry.filename)]


def _add_wheel(archive: tarfile.TarFile, wheel: Path, counter: _Counter) -> None:
    with zipfile.ZipFile(wheel) as packed:
        for entry in _list_entries(wheel):
            data = packed.read(entry)
            archive.addfile(_describe(f"site/{entry.filename}", data), _Counted(data, counter))


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    archive.addfile(_describe(name, data), BytesIO(data))


def _describe(name: str, data: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    return info


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
