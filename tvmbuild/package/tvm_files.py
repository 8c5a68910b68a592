"""Search for TVM's libraries and headers, without importing TVM."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from tvmbuild.errors import TvmbuildError


def find_library_folders() -> list[Path]:
    """Return the folders that may contain TVM's libraries. The one that TVM_LIBRARY_PATH names is the first."""
    named = os.environ.get("TVM_LIBRARY_PATH")
    # A wheel keeps them in lib, a source tree in build/lib.
    built = [folder / inside for folder in _package("tvm") for inside in ("lib", "../../build/lib", "../../lib")]
    return [Path(named), *built] if named else built


def find_runtime() -> tuple[Path, Path]:
    """Return the paths of libtvm_runtime.so and libtvm_ffi.so. Raises TvmbuildError if one of them is missing."""
    ffi = [folder / "lib" for folder in _package("tvm_ffi")]
    return (
        _find("libtvm_runtime.so", find_library_folders(), "apache-tvm"),
        _find("libtvm_ffi.so", [*find_library_folders(), *ffi], "apache-tvm-ffi"),
    )


def has_vulkan_runtime() -> bool:
    """Return whether the library of TVM's own Vulkan runtime is installed.

    Only the file is looked for, because the library cannot be loaded on a machine without Vulkan's loader.
    """
    return any((folder / "libtvm_runtime_vulkan.so").is_file() for folder in find_library_folders())


def find_headers() -> Path:
    """Return the folder with the headers of TVM's C interface and of DLPack. Raises TvmbuildError if it is missing."""
    folders = [folder / "include" for folder in _package("tvm_ffi")]
    return _find("tvm/ffi/c_api.h", folders, "apache-tvm-ffi").parents[2]


def _package(name: str) -> list[Path]:
    found = importlib.util.find_spec(name)
    return [Path(folder) for folder in (found.submodule_search_locations or ())] if found else []


def _find(name: str, folders: list[Path], distribution: str) -> Path:
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).resolve()
    raise TvmbuildError(f"{name} is not there", f"install {distribution} where tvmbuild is installed")
