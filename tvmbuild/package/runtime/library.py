"""TVM's runtime library, without its Python package and without its compiler."""

from __future__ import annotations

import os
from typing import Any

import tvm_ffi
from tvm_ffi.libinfo import load_lib_ctypes

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.tvm_files import find_library_folders


def load_library(name: str) -> None:
    """Load TVM's library `lib<name>.so`, unless it is loaded. Raises OSError or RuntimeError if it is missing."""
    load_lib_ctypes("tvm", name, "RTLD_GLOBAL", extra_lib_paths=find_library_folders())


def load_runtime() -> None:
    """Make TVM's runtime functions known to `tvm_ffi`. A process that has imported tvm has them already."""
    if has_function("runtime.NumThreads"):
        return
    try:
        load_library("tvm_runtime")
    except (OSError, RuntimeError) as error:
        raise TvmbuildError(
            f"TVM's runtime is not there: {str(error).splitlines()[0]}",
            "install apache-tvm, or set TVM_LIBRARY_PATH to the folder of libtvm_runtime.so",
        ) from error


def has_function(name: str) -> bool:
    """Return whether a loaded library of TVM has the function."""
    return tvm_ffi.get_global_func(name, allow_missing=True) is not None


def call(name: str, *arguments: Any) -> Any:
    """Call a function of TVM's runtime."""
    return tvm_ffi.get_global_func(name)(*arguments)


def num_threads() -> int:
    """Return the size of the runtime's own thread pool, which TVM_NUM_THREADS sets before the first use."""
    load_runtime()
    # The first use starts TVM's threads and binds this one to the first cores, whichever it was given.
    cores = os.sched_getaffinity(0)
    try:
        return int(call("runtime.NumThreads"))
    finally:
        os.sched_setaffinity(0, cores)
