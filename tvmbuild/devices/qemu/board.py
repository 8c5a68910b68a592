"""The emulated boards that `tvmbuild device emulator make` makes: their folders, and how Python is run on them."""

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
"""The format version of a board's folder. A board of another version is ignored."""
PYTHON = "tvmbuild-python"
"""The name of the script that runs the board's Python, in usr/bin below the board's root folder."""
QEMU = "qemu"
ROOT = "root"
SITE_PACKAGES = "site-packages"


@dataclass(frozen=True)
class Architecture:
    """The names of a machine's architecture in Debian, in Python wheels, and of its emulator in qemu."""

    debian: str
    wheel: str
    qemu: str


ARCHITECTURES = {"aarch64": Architecture("arm64", "aarch64", "qemu-aarch64-static")}
"""The architectures of emulated boards by name: those of TVM's wheels."""


@dataclass(frozen=True)
class EmulatedBoard:
    """A complete board in a folder: Python and TVM's runtime for another architecture, and the emulator."""

    folder: Path
    python_version: str
    """The version of the board's Python, for example 3.11."""
    tvm: str
    """The versions of TVM on the board, in the form of `tvm_versions`."""
    cpus: tuple[str, ...]
    """The CPUs that the emulator can imitate. If none is chosen, it runs every instruction that it knows."""
    packages: tuple[str, ...]
    """The names of the Debian packages and wheels from which the board was made."""

    @property
    def python(self) -> Path:
        """Return the program that runs the board's Python, also when Python starts `sys.executable`."""
        return self.folder / ROOT / "usr" / "bin" / PYTHON

    @property
    def qemu(self) -> Path:
        """Return the emulator. Its option `-L` must be :attr:`root`."""
        return self.folder / QEMU

    @property
    def root(self) -> Path:
        """Return the folder with the files of the foreign system."""
        return self.folder / ROOT

    def variables(self, cpu: str = "") -> dict[str, str]:
        """Return the environment variables for :attr:`python`.

        If qemu knows the CPU, the emulator runs only instructions of this CPU; otherwise it runs all that it knows.
        """
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
    """Return the folder that holds one folder per board."""
    return cache_dir() / "emulators"


def find_board(architecture: str) -> EmulatedBoard | None:
    """Return the board of the architecture, or None if it was not made, or was made for another version of TVM."""
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
    """Return the architectures whose boards exist."""
    return tuple(name for name in ARCHITECTURES if find_board(name) is not None)


def write_board(board: EmulatedBoard) -> None:
    """Write the board's description into its folder, which marks the board as complete."""
    data = asdict(board)
    del data["folder"]
    write_json(board.folder / "board.json", {"format": FORMAT, **data})


def explain_code(kind: str) -> str | None:
    """Return why code of a target's ``kind`` cannot run on an emulated board, with the remedy, or None if it can."""
    if not target_kind(kind).on_gpu:
        return None
    return f"an emulated board runs the code of CPUs, not of {kind}; say `device: none` to build only"


def explain_absence(architecture: str) -> str:
    """Return the message that the board of the architecture does not exist, with the remedy."""
    return (
        f"the emulated board {architecture} is not made, or not for this TVM; "
        f"`tvmbuild device emulator make {architecture}` makes it"
    )


def tvm_versions() -> str:
    """Return the versions of TVM that this tvmbuild requires, as a text `apache-tvm==… apache-tvm-ffi==…`."""
    return " ".join(wanted for wanted in list_requirements(("apache-tvm", "apache-tvm-ffi")))


def list_requirements(names: tuple[str, ...]) -> list[str]:
    """Return tvmbuild's requirements on the distributions ``names``, in their order, from its installed metadata.

    A requirement is a text such as `apache-tvm==0.27.0`. Distributions that tvmbuild does not require are left out.
    """
    lines = importlib.metadata.requires("tvmbuild") or ()
    asked = {match[0]: line for line in lines if ";" not in line and (match := re.match(r"[\w.-]+", line))}
    return [asked[name] for name in names if name in asked]


def _folder_of_tvmbuild() -> Path:
    """Return a folder with nothing but a link to this tvmbuild's package, for the board's PYTHONPATH.

    The folder of the package itself may also hold packages for this machine, which the board must not import.
    """
    package = Path(tvmbuild.__file__).resolve().parent
    folder = boards_folder() / f"tvmbuild-{hashlib.sha256(str(package).encode()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / package.name
    if not link.exists():
        link.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):  # another process was faster
            link.symlink_to(package)
    return folder
