"""Search for NVRTC, NVIDIA's compiler library, of several versions. Only `list_archs` loads them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.cuda_versions import Version, show_version

_HEADERS = ("nvidia-cuda-runtime", "nvidia-cuda-crt")
"""The headers for float16 and tensor cores. Those of CUDA 13 serve NVRTC 12, too."""
PACKAGES = {
    11: ("nvidia-cuda-nvrtc-cu11", "nvidia-cuda-runtime-cu11"),
    12: ("nvidia-cuda-nvrtc-cu12",),
    13: ("nvidia-cuda-nvrtc",),
}
"""NVRTC's major version → the distributions that bring it; NVRTC 11 needs its own headers."""
DISTRIBUTIONS = (*PACKAGES[12], *_HEADERS)
"""The distributions that compile kernels for a target without `driver:`."""
INSTALL = f"pip install {' '.join(DISTRIBUTIONS)}"
"""The command that restores NVRTC if the installation has lost it; it needs no GPU."""


@dataclass(frozen=True, order=True)
class Nvrtc:
    """An installed NVRTC."""

    version: Version
    path: Path
    """Its library."""

    @property
    def headers(self) -> Path:
        """The `include` folder of its own package, which has CUDA's headers only in a toolkit or for NVRTC 13."""
        return self.path.parent.parent / "include"


def explain_install(major: int) -> str:
    """Return the command that installs NVRTC of a major version."""
    return f"pip install {' '.join(PACKAGES[major])}"


def list_nvrtc() -> list[Nvrtc]:
    """Return each installed NVRTC, of pip's packages and of toolkits, from the oldest to the newest."""
    found = {each for folder in _list_folders() for each in _look_into(folder)}
    return sorted(found)


def list_versions() -> str | None:
    """Return the versions of all installed NVRTCs, `11.8, 12.9`, or None if there is none."""
    return ", ".join(dict.fromkeys(show_version(each.version) for each in list_nvrtc())) or None


def list_archs() -> dict[str, str]:
    """Return version → architectures, `sm_50 sm_52`, of each NVRTC that loads and tells them."""
    told = {show_version(each.version): _ask_for_archs(each.path) for each in list_nvrtc()}
    return {version: " ".join(archs) for version, archs in told.items() if archs}


def find_nvrtc(major: int) -> Nvrtc | None:
    """Return the newest installed NVRTC of a major version, or None if there is none."""
    return max((each for each in list_nvrtc() if each.version[0] == major), default=None)


def list_pip_folders() -> list[Path]:
    """Return the folders of NVIDIA's distributions: `nvidia/cu13`, `nvidia/cuda_nvrtc` and others."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    return [folder for place in places if place.is_dir() for folder in sorted(place.iterdir()) if folder.is_dir()]


def _ask_for_archs(path: Path) -> list[str]:
    """Return the architectures, or an empty list if the library does not load or fails."""
    count = ctypes.c_int()
    try:
        library = ctypes.CDLL(str(path))
        if library.nvrtcGetNumSupportedArchs(ctypes.byref(count)) != 0:
            return []
        numbers = (ctypes.c_int * count.value)()
        return [f"sm_{number}" for number in numbers] if library.nvrtcGetSupportedArchs(numbers) == 0 else []
    except (OSError, AttributeError):
        return []


def _list_folders() -> list[Path]:
    named = [Path(os.environ[name]) for name in ("CUDA_PATH", "CUDA_HOME") if os.environ.get(name)]
    toolkits = [*named, *sorted(Path("/usr/local").glob("cuda*"))]
    return [*(folder / "lib" for folder in list_pip_folders()), *(folder / "lib64" for folder in toolkits)]


def _look_into(folder: Path) -> list[Nvrtc]:
    """Return the NVRTCs in a folder: libnvrtc.so.12 is of the version of libnvrtc-builtins.so.12.9 beside it."""
    found = []
    for builtins in folder.glob("libnvrtc-builtins.so.*"):
        match = re.fullmatch(r"libnvrtc-builtins\.so\.(\d+)\.(\d+)", builtins.name)
        if match is None:
            continue
        version = int(match[1]), int(match[2])
        library = folder / ("libnvrtc.so.11.2" if version[0] == 11 else f"libnvrtc.so.{version[0]}")
        if library.is_file():
            found.append(Nvrtc(version, library.resolve()))
    return found
