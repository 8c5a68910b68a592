"""The thread pool that a package brings (pool.c), switched on in place of the TVM runtime's."""

from __future__ import annotations

import _ctypes
import ctypes
import os
from pathlib import Path

SOURCE = Path(__file__).with_name("pool.c")
_SLOT = "__TVMBackendParallelLaunch"
"""Where TVM's code looks for the function that runs a parallel loop; the runtime fills it when it loads a library."""


def use_own_pool(library: Path, threads: int) -> bool:
    """Let the parallel loops of a library that the runtime has loaded run on its own pool of ``threads``.

    False when it has none (it was built without, or has no parallel loop), when its threads cannot be started, or with
    the environment variable TVMBUILD_THREAD_POOL=tvm: it then runs on TVM's. ``library`` is the path that was loaded,
    and the file must still be there.
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
