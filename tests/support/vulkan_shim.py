"""Devices and faults that this machine lacks: children whose Vulkan loader is vulkan_shim.cpp."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

from made_once import make_once

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.zig import DEFAULT_GLIBC, ZIG, run_linker, zig_target
from tvmbuild.package.runtime.native_build import VULKAN, include_folders

PROJECT = Path(__file__).resolve().parents[2]
LOADER = "libvulkan.so.1"
ONE_CARD = "RTX 4090:discrete"
_SOURCE = Path(__file__).with_suffix(".cpp")
_FLAGS = ("-shared", "-fPIC", "-O1", "-std=c++17", "-fvisibility=hidden", "-fno-sanitize=undefined")
_NO_LIBRARY = ("-nostdlib++", "-fno-exceptions", "-fno-rtti")


def shim_environment(**options: str) -> dict[str, str]:
    """Return the environment of a child that meets the shim; `fail="…"` is SHIM_FAIL."""
    folder = make_once("vulkan shim", _compile)
    paths = [str(PROJECT), str(PROJECT / "tests/support")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "LD_LIBRARY_PATH": str(folder),
        "SHIM_REAL": _find_loader(),
        **{f"SHIM_{name.upper()}": value for name, value in options.items()},
    }


def _compile(folder: Path) -> None:
    target = ("-target", zig_target(machine_of(platform.machine()), DEFAULT_GLIBC))
    folders = (*include_folders(VULKAN), _SOURCE.parent)
    include = [word for folder in folders for word in ("-I", str(folder))]
    output = str(folder / LOADER)
    run_linker([*ZIG, "c++", *target, *_FLAGS, *_NO_LIBRARY, *include, str(_SOURCE), "-o", output], folder)


def _find_loader() -> str:
    ctypes.CDLL(LOADER)
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libvulkan.so" in line:
            return line.split()[-1]
    raise AssertionError("the loader is not mapped")
