"""Access to TVM's runtime library without importing TVM's Python package or loading its compiler."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import tvm_ffi

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.tvm_files import find_library_folders


def load_library(name: str) -> None:
    """Load TVM's library `lib<name>.so`, unless it is already loaded. Raises OSError if that fails."""
    places = [folder / f"lib{name}.so" for folder in find_library_folders()]
    found = next((path.resolve() for path in places if path.is_file()), None)
    ctypes.CDLL(str(found or f"lib{name}.so"), ctypes.RTLD_GLOBAL)  # only a name: wherever the loader looks


def load_runtime() -> None:
    """Load TVM's runtime library, unless this process has it already, for example because it imported tvm.

    Raises TvmbuildError if the library cannot be loaded.
    """
    if has_function("runtime.NumThreads"):
        return
    try:
        load_library("tvm_runtime")
    except OSError as error:
        raise TvmbuildError(
            f"TVM's runtime is not there: {str(error).splitlines()[0]}",
            "install apache-tvm, or set TVM_LIBRARY_PATH to the folder of libtvm_runtime.so",
        ) from error


def has_function(name: str) -> bool:
    """Return whether TVM's registry has a global function called ``name``."""
    return tvm_ffi.get_global_func(name, allow_missing=True) is not None


def call(name: str, *arguments: Any) -> Any:
    """Call the global function ``name`` in TVM's registry and return its result."""
    return tvm_ffi.get_global_func(name)(*arguments)


def num_threads() -> int:
    """Return the number of threads in the pool of TVM's runtime.

    The environment variable TVM_NUM_THREADS determines it at the first use of the pool.
    """
    load_runtime()
    # The first use starts TVM's threads and binds this one to the first cores, whichever it was given.
    cores = os.sched_getaffinity(0)
    try:
        return int(call("runtime.NumThreads"))
    finally:
        os.sched_setaffinity(0, cores)
