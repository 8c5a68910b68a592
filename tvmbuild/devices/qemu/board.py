"""The emulated boards of `tvmbuild device emulator make`: their folders, and the commands that run Python on them."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import tvmbuild
from tvmbuild.base.files import write_json
from tvmbuild.base.layout import cache_dir
from tvmbuild.targets.table import target_kind

FORMAT = 1
"""The format of the board's folder. A board of another format counts as not made."""
PYTHON = "tvmbuild-python"
"""The script, in the root's usr/bin, that runs the board's Python."""
QEMU = "qemu"
ROOT = "root"
SITE_PACKAGES = "site-packages"


@dataclass(frozen=True)
class Architecture:
    """The names of an emulated machine in Debian, in wheels and in qemu."""

    debian: str
    wheel: str
    qemu: str


ARCHITECTURES = {"aarch64": Architecture("arm64", "aarch64", "qemu-aarch64-static")}
"""The architectures for which TVM has wheels."""


@dataclass(frozen=True)
class EmulatedBoard:
    """A folder with a foreign system's Python, TVM's runtime for it, and the emulator."""

    folder: Path
    python_version: str
    tvm: str
    cpus: tuple[str, ...]
    """The CPUs that the emulator can imitate. Without a CPU it has every instruction that it knows."""
    packages: tuple[str, ...]
    """The files from which it was made."""

    @property
    def python(self) -> Path:
        """Return the program that is the board's Python. It can start itself as `sys.executable`."""
        return self.folder / ROOT / "usr" / "bin" / PYTHON

    @property
    def qemu(self) -> Path:
        """Return the emulator. Its `-L` is `root`."""
        return self.folder / QEMU

    @property
    def root(self) -> Path:
        """Return the folder with the foreign system."""
        return self.folder / ROOT

    def variables(self, cpu: str = "") -> dict[str, str]:
        """Return the environment of :attr:`python`. If qemu knows the CPU, it runs only that CPU's instructions."""
        paths = (self.folder / SITE_PACKAGES, _folder_of_tvmbuild())
        return {
            "PYTHONPATH": ":".join(map(str, paths)),
            "PYTHONNOUSERSITE": "1",
            "TVM_USE_RUNTIME_LIB": "1",
            # TVM's idle threads spin before they sleep; emulated, that takes minutes beside other programs.
            "TVM_THREAD_POOL_SPIN_COUNT": "0",
            **({"QEMU_CPU": cpu} if cpu in self.cpus else {}),
        }


def boards_folder() -> Path:
    """Return the folder of all boards, one folder each."""
    return cache_dir() / "emulators"


def find_board(architecture: str) -> EmulatedBoard | None:
    """Return the board, or None if it was not made or was made for another version of TVM."""
    folder = boards_folder() / architecture
    try:
        data = json.loads((folder / "board.json").read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return None
        board = EmulatedBoard(folder, data["python_version"], data["tvm"], tuple(data["cpus"]), tuple(data["packages"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return board if board.tvm == tvm_versions() and board.python.is_file() else None


def list_boards() -> tuple[str, ...]:
    """Return the architectures of the existing boards."""
    return tuple(name for name in ARCHITECTURES if find_board(name) is not None)


def write_board(board: EmulatedBoard) -> None:
    """Mark the board in its folder as complete."""
    data = asdict(board)
    del data["folder"]
    write_json(board.folder / "board.json", {"format": FORMAT, **data})


def explain_code(kind: str) -> str | None:
    """Return why code of a target's kind does not run on an emulated board, with the remedy, or None if it does."""
    if not target_kind(kind).on_gpu:
        return None
    return f"an emulated board runs the code of CPUs, not of {kind}; say `device: none` to build only"


def explain_absence(architecture: str) -> str:
    """Return the message, with the remedy, about a board that does not exist."""
    return (
        f"the emulated board {architecture} is not made, or not for this TVM; "
        f"`tvmbuild device emulator make {architecture}` makes it"
    )


def tvm_versions() -> str:
    """Return the versions of TVM that this tvmbuild is made for, as `apache-tvm==… apache-tvm-ffi==…`."""
    return " ".join(wanted for wanted in list_requirements(("apache-tvm", "apache-tvm-ffi")))


def list_requirements(names: tuple[str, ...]) -> list[str]:
    """Return the requirements on these distributions in tvmbuild's own metadata, in the order of ``names``."""
    lines = importlib.metadata.requires("tvmbuild") or ()
    asked = {match[0]: line for line in lines if ";" not in line and (match := re.match(r"[\w.-]+", line))}
    return [asked[name] for name in names if name in asked]


def _folder_of_tvmbuild() -> Path:
    """Return a folder with only a link to this tvmbuild, because packages of this machine lie beside the original."""
    package = Path(tvmbuild.__file__).resolve().parent
    folder = boards_folder() / f"tvmbuild-{hashlib.sha256(str(package).encode()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / package.name
    if not link.exists():
        link.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):  # another process was faster
            link.symlink_to(package)
    return folder
