"""Compilation of the Vulkan runtime with ziglang, for this machine or another. The build of the wheel uses it."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.zig import DEFAULT_GLIBC, ZIG, run_linker, zig_target
from tvmbuild.package.tvm_files import find_headers

NAME = "libtvmbuild_vulkan.so"
MACHINES = ("x86_64", "aarch64")
_NATIVE = Path(__file__).with_name("native")
_FLAGS = (
    *("-shared", "-fPIC", "-O2", "-std=c++17", "-fvisibility=hidden", "-fno-sanitize=undefined"),
    *("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion"),
    # The process has a C++ library already, TVM's.
    *("-nostdlib++", "-fno-exceptions", "-fno-rtti", "-funwind-tables", "-fno-threadsafe-statics"),
    "-s",
    "-Wl,--allow-shlib-undefined",  # TVM's libraries are in the process that loads it
)


def list_sources() -> list[Path]:
    """Return the C++ source files and headers of the Vulkan runtime, sorted."""
    return sorted(path for path in _NATIVE.iterdir() if path.suffix in {".h", ".cpp"})


def place_prebuilt(machine: str) -> Path:
    """Return the path where a wheel or a bundle has the library for a machine. The file may not exist."""
    return Path(__file__).with_name("lib") / machine / NAME


def compile_library(machine: str, folder: Path, *flags: str) -> Path:
    """Compile the library for a machine into the existing ``folder``, and return its path.

    ``flags`` are more options of the compiler. Raises TvmbuildError if the compiler fails.
    """
    library = folder / NAME
    sources = [str(path) for path in list_sources() if path.suffix == ".cpp"]
    target = ("-target", zig_target(machine, DEFAULT_GLIBC))
    command = [*ZIG, "c++", *target, *_FLAGS, *flags, "-I", str(find_headers()), *sources, "-o", str(library)]
    run_linker(command, folder)
    return library
