"""Cards, drivers and faults that this machine lacks: children whose CUDA driver is cuda_shim.cpp."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from made_once import make_once

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.zig import DEFAULT_GLIBC, ZIG, run_linker, zig_target
from tvmbuild.package.runtime.native_build import CUDA
from tvmbuild.package.runtime.native_library import find_library

PROJECT = Path(__file__).resolve().parents[2]
DRIVER = "libcuda.so.1"
SOURCE = Path(__file__).with_suffix(".cpp")
_FLAGS = ("-shared", "-fPIC", "-O1", "-std=c++17", "-fvisibility=hidden", "-fno-sanitize=undefined")


def shim_environment(*, is_old: bool | str = False, **options: str) -> dict[str, str]:
    """Return the environment of a child that meets the shim; `fail="…"` is SHIM_FAIL.

    An old one has only the functions of CUDA 11.4.
    """
    find_library(CUDA, machine_of(platform.machine()))  # compiled here, so that no child reports it
    folder = make_once(("cuda shim", is_old), lambda place: _compile(place, is_old=bool(is_old)))
    driver = {"SHIM_DRIVER": "11040"} if is_old else {}
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(PROJECT), str(PROJECT / "tests/support"))),
        "LD_LIBRARY_PATH": str(folder),
        CUDA.choice: "own",
        **driver,
        **{f"SHIM_{name.upper()}": value for name, value in options.items()},
    }


def _compile(folder: Path, *, is_old: bool) -> None:
    target = ("-target", zig_target(machine_of(platform.machine()), DEFAULT_GLIBC))
    flags = (*_FLAGS, *(("-DSHIM_OLD",) if is_old else ()))
    output = str(folder / DRIVER)
    run_linker([*ZIG, "c++", *target, *flags, "-I", str(CUDA.folder), str(SOURCE), "-o", output], folder)
