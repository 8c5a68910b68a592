"""The maker of emulated boards, in the user's cache: Debian's Python and TVM's runtime for another architecture."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from tvmbuild.base.progress import report_progress
from tvmbuild.devices.qemu.board import (
    ARCHITECTURES,
    PYTHON,
    QEMU,
    ROOT,
    SITE_PACKAGES,
    Architecture,
    EmulatedBoard,
    boards_folder,
    find_board,
    tvm_versions,
    write_board,
)
from tvmbuild.devices.qemu.debian import Apt, check_tools, host_architecture, run_tool, unpack
from tvmbuild.devices.wheels import Foreign, download_wheels
from tvmbuild.errors import TvmbuildError

_DEBIAN = ("python3-minimal", "libpython3-stdlib", "libstdc++6")
_WHEELS = (
    *("apache-tvm", "apache-tvm-ffi", "numpy", "pillow", "platformdirs"),  # they run packages
    *("cloudpickle", "psutil", "tornado"),  # an RPC server needs them besides
)
_LEFT_OUT = ("libtvm_compiler.so", "libtvm_runtime_cuda.so")
"""Libraries that are not put on boards, because boards run packages and do not compile: 260 of TVM's 270 MB."""
_SCRIPT = """#!/bin/sh
# Python of another machine, under qemu. argv[0] is this script, so that what starts sys.executable starts it.
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../{qemu}" -L "$here/../.." -0 "$here/{name}" "$here/{python}" "$@"
"""
_TRIAL = """
import platform
from tvmbuild.package.runtime import library, session
library.load_runtime()
print(platform.machine())
"""


def make_board(name: str) -> EmulatedBoard:
    """Make the board of the architecture ``name``, unless a valid one exists, and return it.

    An outdated board stays until the new one is complete. Raises AptError if Debian's packages are unavailable, and
    TvmbuildError if another step fails.
    """
    folder = boards_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _only_maker(folder / f"{name}.lock"):
        if (board := find_board(name)) is not None:
            return board
        check_tools()
        for leftover in folder.glob(f".{name}.*"):
            shutil.rmtree(leftover)
        unfinished = Path(mkdtemp(prefix=f".{name}.", dir=folder))
        try:
            unfinished.chmod(0o755)
            board = _fill(unfinished, name)
            _publish(unfinished, folder / name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return EmulatedBoard(folder / name, board.python_version, board.tvm, board.cpus, board.packages)


def remove_board(name: str) -> bool:
    """Remove the board of the architecture ``name`` and the leftovers of killed makers. Returns whether it existed."""
    folder = boards_folder()
    if not folder.is_dir():
        return False
    with _only_maker(folder / f"{name}.lock"):
        found = (folder / name).is_dir()
        for each in (*folder.glob(f".{name}.*"), folder / name):
            shutil.rmtree(each, ignore_errors=True)
    return found


def _fill(folder: Path, name: str) -> EmulatedBoard:
    architecture = ARCHITECTURES[name]
    with TemporaryDirectory(prefix="tvmbuild-apt-") as temporary:
        # apt downloads as another user when root runs it, and that user must read the folder.
        Path(temporary).chmod(0o755)
        packages = _add_system(folder, architecture, Apt(Path(temporary)))
    python = next(path.name for path in sorted((folder / ROOT / "usr/bin").glob("python3.*")) if path.is_file())
    version = python.removeprefix("python")
    script = folder / ROOT / "usr/bin" / PYTHON
    script.write_text(_SCRIPT.format(qemu=QEMU, name=PYTHON, python=python), encoding="utf-8")
    script.chmod(0o755)
    wheels = _add_wheels(folder / SITE_PACKAGES, architecture, version, _glibc_minor(packages))
    board = EmulatedBoard(folder, version, tvm_versions(), _list_cpus(folder / QEMU), (*packages, *wheels))
    report_progress("starting it")
    _try_out(board, name)
    write_board(board)
    return board


def _add_system(folder: Path, architecture: Architecture, apt: Apt) -> tuple[str, ...]:
    """Put the emulator and the foreign system into the board's folder, and return the names of their packages."""
    host, found = host_architecture(), shutil.which(architecture.qemu)
    report_progress("asking apt's sources for packages")
    apt.update(list(dict.fromkeys((architecture.debian, *(() if found else (host,))))))
    report_progress(f"downloading Python for {architecture.debian}")
    archives = apt.download(architecture.debian, _DEBIAN)
    for archive in archives:
        unpack(archive, folder / ROOT)
    shutil.rmtree(folder / ROOT / "usr/share", ignore_errors=True)  # documentation
    if not (folder / ROOT / "lib").exists():  # base-files would bring it, with a shell script
        (folder / ROOT / "lib").symlink_to("usr/lib")
    if found:
        shutil.copy(found, folder / QEMU)
        return tuple(path.name for path in archives)
    report_progress("downloading qemu")
    emulators = apt.download(host, ("qemu-user-static",))
    _take_qemu(emulators, architecture.qemu, folder / QEMU)
    return tuple(path.name for path in (*archives, *emulators))


def _take_qemu(archives: list[Path], name: str, path: Path) -> None:
    """Copy the emulator called ``name`` to ``path`` from the packages, which hold an emulator for every machine."""
    with TemporaryDirectory(prefix="tvmbuild-qemu-") as temporary:
        for archive in archives:
            if archive.name.startswith("qemu-user"):
                unpack(archive, Path(temporary))
        # Newer packages have the program without the ending.
        programs = [Path(temporary, "usr/bin", each) for each in (name, name.removesuffix("-static"))]
        program = next((each for each in programs if each.is_file()), None)
        if program is None:
            raise TvmbuildError(f"the package qemu-user-static has no {name}", f"put {name} into PATH")
        shutil.copy(program, path)
    path.chmod(0o755)


def _glibc_minor(packages: tuple[str, ...]) -> int:
    """Return the minor version of glibc among the Debian packages: 36 for glibc 2.36."""
    return next(int(match[1]) for name in packages if (match := re.match(r"libc6_2\.(\d+)", name)))


def _add_wheels(site: Path, architecture: Architecture, python: str, glibc: int) -> tuple[str, ...]:
    """Download the wheels that the board needs, unpack them into ``site``, and return the names of their files."""
    report_progress("downloading TVM's wheels")
    with TemporaryDirectory(prefix="tvmbuild-wheels-") as temporary:
        wheels = download_wheels(Path(temporary), Foreign(architecture.wheel, python, glibc), _WHEELS)
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site, [name for name in archive.namelist() if not name.endswith(_LEFT_OUT)])
        return tuple(wheel.name for wheel in wheels)


def _list_cpus(qemu: Path) -> tuple[str, ...]:
    """Return the CPUs that the emulator can imitate: the first words of the lines of `qemu -cpu help`."""
    # Some versions exit with an error after the help.
    lines = subprocess.run([str(qemu), "-cpu", "help"], capture_output=True, text=True, check=False).stdout.splitlines()
    return tuple(sorted(words[0] for line in lines if (words := line.split()) and not line.startswith("Available")))


def _try_out(board: EmulatedBoard, name: str) -> None:
    """Import the modules that packages need on the board. Raises TvmbuildError if the board does not work."""
    variables = [f"{key}={value}" for key, value in board.variables().items()]
    answer = run_tool(["env", *variables, str(board.python), "-c", _TRIAL], "qemu", f"Python on the board {name}")
    if answer.split() != [name]:
        raise TvmbuildError(f"Python on the emulated board says it is {answer.strip()!r}, not {name}")


def _publish(unfinished: Path, folder: Path) -> None:
    """Rename the complete board's folder to ``folder``, and remove an old board there.

    For a moment neither exists, because a rename cannot replace a folder that has files.
    """
    if folder.exists():
        old = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        folder.rename(old / "old")
        unfinished.rename(folder)
        shutil.rmtree(old)
    else:
        unfinished.rename(folder)


@contextmanager
def _only_maker(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report_progress("waiting for another process that makes it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
