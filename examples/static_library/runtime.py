"""The compilation of TVM's runtime to a static library: python runtime.py FOLDER.

FOLDER gets `libtvm_static.a`, made of the sources in the installed wheels by tvmbuild's own compiler. It has the part
that CPUs need: no GPUs, no RPC and no libraries of others. Compiled files are kept in FOLDER/objects.
"""  # noqa: INP001 - a script

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tvmbuild.package.tvm_files import find_headers, find_runtime

ZIG = [sys.executable, "-m", "ziglang"]
FLAGS = [
    "-std=c++20",
    "-O2",
    "-g0",
    "-w",
    "-fPIC",
    "-ffunction-sections",
    "-fdata-sections",
    "-DTVM_FFI_USE_LIBBACKTRACE=0",
]
HEADERS = Path(__file__).parent / "headers"
"""Our own instead of those that the wheels' sources include and the wheels lack."""
RUNTIME = (
    *("cpu_device_api", "device_api", "file_utils", "logging", "module", "tensor", "thread_pool", "threading_backend"),
    *("workspace_pool", "memory/memory_manager", "vm/builtin", "vm/bytecode", "vm/executable", "vm/vm"),
)
"""The files of tvm/src/runtime, without their suffix."""
FFI = (
    *("backtrace", "container", "custom_allocator", "dtype", "error", "function", "init_once", "object", "tensor"),
    *("extra/env_c_api", "extra/env_context", "extra/json_parser", "extra/json_writer", "extra/module"),
    *("extra/library_module", "extra/library_module_dynamic_lib", "extra/library_module_system_lib"),
)
"""The files of tvm_ffi/src/ffi, without their suffix."""


def compile_file(source: Path, made: Path, includes: list[str]) -> Path:
    """Compile one file, unless its object is newer."""
    if not made.is_file() or made.stat().st_mtime < source.stat().st_mtime:
        command = [*ZIG, "c++", *FLAGS, *includes, "-c", str(source), "-o", str(made)]
        subprocess.run(command, check=True)
    return made


def build(folder: Path) -> Path:
    """Build the library; return its path."""
    tvm, ffi = find_runtime()[0].parents[1], find_runtime()[1].parents[1]
    sources = [tvm / "src" / "runtime" / f"{name}.cc" for name in RUNTIME]
    sources += [ffi / "src" / "ffi" / f"{name}.cc" for name in FFI]
    folders = (HEADERS, HEADERS / "tvm", HEADERS / "tvm" / "support", tvm / "include", find_headers())
    includes = [f"-I{each}" for each in folders]
    objects = folder / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    made = [objects / f"{'ffi' if ffi in each.parents else 'tvm'}-{each.stem}.o" for each in sources]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        compiled = list(pool.map(lambda pair: compile_file(*pair, includes), zip(sources, made, strict=True)))
    library = folder / "libtvm_static.a"
    library.unlink(missing_ok=True)
    subprocess.run([*ZIG, "ar", "rcs", str(library), *map(str, compiled)], check=True)
    return library


if __name__ == "__main__":
    print(build(Path(sys.argv[1]).resolve()))
