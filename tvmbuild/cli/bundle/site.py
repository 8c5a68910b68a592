"""What a bundle brings of Python packages: wheels for the other machine's Python, unpacked and compressed together.

TVM's compiler alone is 250 MB, and a fifth of that compressed by LZMA.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import subprocess
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import tvmbuild
from tvmbuild.base.capabilities import installed_version
from tvmbuild.base.files import publish
from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.layout import cache_dir
from tvmbuild.base.pip_download import download_command, foreign_options
from tvmbuild.base.progress import report_progress
from tvmbuild.compiler.codegen.nvrtc import DISTRIBUTIONS
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.vulkan.build import place_prebuilt

SITE = "site.tar.xz"
_TOP = "tvmbuild"
_PACKAGE = Path(tvmbuild.__file__).parent
_ONLY_HERE = frozenset({"onnxsim", "unearth", "pillow", "ziglang"})
"""Models are simplified before they travel; the other machine's own compiler links."""
_UNUSED = re.compile(r"tvm/(3rdparty|src|web|include|lib64)/|.*/(tests?|testing/data)/|.*\.(pyi|cu|cuh)$")


def pack_site(folder: Path, python: str, machine: str, have: frozenset[str]) -> Path:
    """Return an archive of what tvmbuild needs there, besides itself; made once for the same versions."""
    needed = list_needed(have)
    key = hashlib.sha256("\n".join((*needed, python, machine)).encode()).hexdigest()[:16]
    kept = cache_dir() / "bundles" / f"{key}.tar.xz"
    if kept.exists():
        return kept
    wheels = _download(folder, needed, python, machine) if needed else []
    if wheels:
        report_progress("compressing them: about two minutes, once for these versions")
    with publish(kept) as made, tarfile.open(made, "w:xz", preset=6) as archive:
        for wheel in wheels:
            _add_wheel(archive, wheel)
    return kept


def list_needed(have: frozenset[str]) -> tuple[str, ...]:
    """Return `name==version` of what tvmbuild needs to tune and time, as far as it is installed here."""
    absent = {_normal(name) for name in have} | _ONLY_HERE
    found: dict[str, str] = {}
    waiting = [_TOP, *DISTRIBUTIONS]  # also where this tvmbuild was installed when they were an extra
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


def find_vulkan_runtime(machine: str) -> tuple[Path, Path]:
    """Return the Vulkan runtime for the other machine, and its place in tvmbuild there; nothing compiles it there."""
    from tvmbuild.package.runtime.vulkan.plugin import find_library  # noqa: PLC0415 - it imports tvm_ffi

    known = machine_of(machine)
    return find_library(known), place_prebuilt(known).relative_to(_PACKAGE)


def add_package(archive: tarfile.TarFile, *libraries: tuple[Path, Path]) -> None:
    """Add tvmbuild itself, as it runs here, with the metadata by which doit finds its state's backend.

    Compiled ``libraries`` are those of the other machine, each with its place.
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
    done = subprocess.run([*command, *needed], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise TvmbuildError(f"pip cannot download the wheels: {said}", "name what the other machine has: --have NAME,…")
    return sorted(folder.glob("*.whl"))


def _add_wheel(archive: tarfile.TarFile, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        for entry in packed.infolist():
            if not entry.is_dir() and not _UNUSED.match(entry.filename):
                _add(archive, f"site/{entry.filename}", packed.read(entry))


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    archive.addfile(info, BytesIO(data))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
