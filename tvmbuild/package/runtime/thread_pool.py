"""The number of threads of a call, and the thread pool in a package (pool.c) that replaces the TVM runtime's pool."""

from __future__ import annotations

import _ctypes
import ctypes
import os
from pathlib import Path

from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.wording import count
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo, default_threads

SOURCE = Path(__file__).with_name("pool.c")
_VARIABLE = "TVM_NUM_THREADS"
_SLOT = "__TVMBackendParallelLaunch"
"""The pointer in a library through which its code calls the function that runs a parallel loop.

TVM's runtime sets the pointer when it loads the library.
"""


def choose_threads(info: PackageInfo, threads: int | None) -> int:
    """Return the number of threads of one call: ``threads``, or TVM_NUM_THREADS, or the package's default.

    Raises TvmbuildError if more threads are requested than this process may use cores: two threads on one core take
    twice the time of one thread.
    """
    cores = available_cores()
    by_variable = threads is None and _VARIABLE in os.environ
    if by_variable:
        threads = _read_variable()
    if threads is None:
        return default_threads(info, cores)
    if not 1 <= threads <= cores:
        told = f"{_VARIABLE} asks for {threads} threads" if by_variable else f"{threads} threads were asked for"
        remedy = f"ask for 1 to {cores}" if cores > 1 else "ask for 1, or give the process more cores"
        raise TvmbuildError(f"{told}, and this process may use {count(cores, 'core')}", remedy)
    return threads


def _read_variable() -> int:
    """Return the value of TVM_NUM_THREADS.

    Asking TVM's runtime would start its pool, whose threads may keep a process on one busy core from ending.
    """
    text = os.environ[_VARIABLE]
    try:
        return int(text)
    except ValueError:
        raise TvmbuildError(f"{_VARIABLE} is {text!r}, not a number", "set a number of threads, or unset it") from None


def use_own_pool(library: Path, threads: int) -> bool:
    """Let a library, which TVM's runtime has loaded, run its parallel loops on its own pool of ``threads`` threads.

    Returns False, and the loops run on TVM's pool, in three cases: the library has no pool (it was built without one,
    or has no parallel loop), its threads cannot be started, or the environment has TVMBUILD_THREAD_POOL=tvm.
    ``library`` is the path from which the library was loaded. The file must still exist.
    """
    if os.environ.get("TVMBUILD_THREAD_POOL") == "tvm":
        return False
    loaded = ctypes.CDLL(str(library))  # the same file is the same library
    try:
        slot = ctypes.c_void_p.in_dll(loaded, _SLOT)
        start, launch = loaded.tvmbuild_pool_start, loaded.tvmbuild_pool_launch
    except (AttributeError, ValueError):
        return False
    finally:
        _ctypes.dlclose(loaded._handle)  # noqa: SLF001 - ctypes has no public way; the runtime still holds the library
    if start(threads) != 0:
        return False
    slot.value = ctypes.cast(launch, ctypes.c_void_p).value
    return True
