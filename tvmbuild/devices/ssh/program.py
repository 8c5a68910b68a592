"""The files that a board without Python needs besides the package: the C++ program that runs it, and libraries."""

from __future__ import annotations

import hashlib
import platform
import zipfile
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild import package
from tvmbuild.base.files import write_bytes
from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.layout import cache_dir
from tvmbuild.base.progress import report_progress
from tvmbuild.base.zig import DEFAULT_GLIBC, ZIG, run_linker, zig_target
from tvmbuild.devices.qemu.board import SITE_PACKAGES, find_board, tvm_versions
from tvmbuild.devices.ssh.trouble import explain_no_runtime
from tvmbuild.devices.wheels import Foreign, download_wheels
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.runtime.native_build import RUNTIMES
from tvmbuild.package.tvm_files import find_headers, find_runtime

PROGRAM = "serve_model"
_CPP = Path(package.__file__).parent / "cpp"
_JSON = _CPP / "third_party" / "nlohmann" / "json.hpp"
_SOURCES = ("serve_model.cpp", "tvmbuild.cpp")
_LIBRARIES = {"libtvm_runtime.so": "tvm/lib", "libtvm_ffi.so": "tvm_ffi/lib"}
"""Name of each library of TVM → its folder in a wheel."""
_FLAGS = ("-std=c++17", "-O2", "-g0", "-s", "-ffp-contract=off", "-fno-sanitize=undefined")


def machine_of_package(info: PackageInfo) -> str:
    """Return the machine for which the package's code was built. A package that names none is for this machine."""
    return machine_of(str(info.target.cpu.get("mtriple", platform.machine())))


def find_files(machine: str, kind: str = "llvm") -> tuple[Path, ...]:
    """Return the program and the libraries for a board of the ``machine``, the program first.

    Missing files are built or downloaded into the cache. ``kind`` is the target's kind: for `cuda` and
    `vulkan`, tvmbuild's runtime is among the libraries. Raises TvmbuildError if this machine is not supported.
    """
    reason = explain_no_runtime(machine)
    if reason is not None:
        raise TvmbuildError(reason)
    libraries = _find_libraries(machine)
    return (_find_program(machine, libraries), *libraries, *_find_backend(machine, kind))


def _find_backend(machine: str, kind: str) -> tuple[Path, ...]:
    runtime = next((each for each in RUNTIMES if each.kind == kind), None)
    if runtime is None:
        return ()
    # Packages for CPUs do not need it.
    from tvmbuild.package.runtime.native_library import find_library  # noqa: PLC0415

    return (find_library(runtime, machine),)


def _find_libraries(machine: str) -> tuple[Path, ...]:
    """Return TVM's libraries for the machine: from this installation, an emulated board, or downloaded wheels."""
    if machine == platform.machine():
        return find_runtime()
    if (board := find_board(machine)) is not None:
        return tuple(board.folder / SITE_PACKAGES / folder / name for name, folder in _LIBRARIES.items())
    folder = cache_dir() / "boards" / f"{machine}-{_digest(tvm_versions().encode())}"
    if not all((folder / name).is_file() for name in _LIBRARIES):
        report_progress(f"downloading TVM's wheels for {machine}, once")
        _download_libraries(machine, folder)
    return tuple(folder / name for name in _LIBRARIES)


def _download_libraries(machine: str, folder: Path) -> None:
    python = ".".join(platform.python_version_tuple()[:2])  # the wheels' libraries are the same for each Python
    wanted = Foreign(machine, python, int(DEFAULT_GLIBC.split(".")[1]))
    with TemporaryDirectory(prefix="tvmbuild-wheels-") as temporary:
        for wheel in download_wheels(Path(temporary), wanted, ("apache-tvm", "apache-tvm-ffi"), "--no-deps"):
            with zipfile.ZipFile(wheel) as archive:
                for name, inside in _LIBRARIES.items():
                    if f"{inside}/{name}" in archive.namelist():
                        write_bytes(folder / name, archive.read(f"{inside}/{name}"))


def _find_program(machine: str, libraries: tuple[Path, ...]) -> Path:
    target = zig_target(machine, DEFAULT_GLIBC)
    read = [path for path in sorted(_CPP.rglob("*")) if path.suffix in {".cpp", ".h", ".hpp"}]
    contents = [path.read_bytes() for path in (*read, _JSON)]
    identity = [target, version("ziglang"), tvm_versions(), *_FLAGS]
    program = cache_dir() / "boards" / f"{PROGRAM}-{machine}-{_digest(' '.join(identity).encode(), *contents)}"
    if not program.is_file():
        report_progress(f"building the program that runs packages on {machine}, once: a minute or two")
        with TemporaryDirectory(prefix="tvmbuild-program-") as temporary:
            sources = [str(_CPP / name) for name in _SOURCES]
            includes = [f"-I{_CPP}", f"-I{find_headers()}"]
            # The program calls nothing in libtvm_runtime by name, so the linker would omit the library.
            linked = ["-Wl,--no-as-needed", *map(str, libraries), "-lpthread", "-ldl"]
            command = [*ZIG, "c++", "-target", target, *_FLAGS, *includes, *sources, *linked, "-o", PROGRAM]
            run_linker(command, Path(temporary))
            write_bytes(program, Path(temporary, PROGRAM).read_bytes())
    return program


def _digest(*contents: bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]
