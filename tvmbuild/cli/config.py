"""The command `tvmbuild config`: the paths and flags that a C++ program needs to run packages."""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

from tvmbuild import package
from tvmbuild.base.host_cpu import machine_of
from tvmbuild.package.runtime.native_build import CUDA, VULKAN
from tvmbuild.package.tvm_files import find_headers, find_runtime

HELP = "print where C++ programs find the library that runs packages"
_CPP = Path(package.__file__).parent / "cpp"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--cmake-dir", action="store_true", help="the CMake project: cmake -S, or add_subdirectory")
    one.add_argument("--cflags", action="store_true", help="flags to compile with")
    one.add_argument("--libs", action="store_true", help="flags to link with; the program finds the libraries by path")
    one.add_argument("--vulkan", action="store_true", help="the runtime that packages for Vulkan need besides TVM's")
    one.add_argument("--cuda", action="store_true", help="the runtime for CUDA packages that needs only the driver")
    one.add_argument("--json", action="store_true", help="all of it for machines")


def run(args: argparse.Namespace) -> int:
    """Print the requested value in one line, and return 0."""
    if args.cmake_dir:
        print(_CPP)
        return 0
    if args.vulkan or args.cuda:
        from tvmbuild.package.runtime.native_library import find_library  # noqa: PLC0415 - it imports TVM's

        print(find_library(CUDA if args.cuda else VULKAN, machine_of(platform.machine())))
        return 0
    includes, libraries = [_CPP, find_headers()], find_runtime()
    if args.json:
        found = {
            "cmake_dir": str(_CPP),
            "include_dirs": list(map(str, includes)),
            "libraries": list(map(str, libraries)),
        }
        print(json.dumps(found))
    elif args.cflags:
        # -ffp-contract=off rounds products and sums separately, so that pictures become the same numbers as in Python.
        print("-std=c++17 -ffp-contract=off", *(f"-I{folder}" for folder in includes))
    else:
        paths = ",".join(f"-rpath,{library.parent}" for library in libraries)
        # No function of libtvm_runtime is called by name, so a linker would leave the library out.
        print("-Wl,--no-as-needed", *libraries, f"-Wl,--as-needed,{paths}", "-lpthread -ldl")
    return 0
