"""Instances of TVM's virtual machine, each with the memory that it keeps for its inputs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi

_MALLOC, _POOLED = 1, 2
"""TVM's numbers of allocators."""
_CPU = 1
MOST_BYTES_OF_MALLOC = 32 << 20
"""The largest block that glibc's malloc keeps for the next user; larger ones it takes from the system each time."""
_HEADER = 64 << 10
"""The largest size of a page, which malloc may add to a block."""


@dataclass(frozen=True)
class Machine:
    """An instance of TVM's virtual machine, which serves one call at a time."""

    machine: Any
    """TVM's object, which has the package's functions by their names."""
    main: Callable[..., Any]
    """The function that runs the model."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Name of an input → its memory on the device, for reuse by the next call."""
    kept_by_entry: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The same for each function beside ``main``, whose arguments may have the names of inputs."""


def let_malloc_keep(size: int) -> None:
    """Let glibc's malloc keep blocks of ``size`` bytes, and twice as much freed memory, for their next user.

    glibc learns both limits when a block from the system is freed (M_MMAP_THRESHOLD in mallopt(3)). Otherwise it may
    return a call's memory to the system, depending on what lies after it in the heap, and each call has page faults:
    750 of yolo11n, which then takes 9.1 instead of 7.9 ms. The block of this function is never touched.
    """
    malloc = ctypes.CDLL(None)
    malloc.malloc.argtypes, malloc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    malloc.free.argtypes, malloc.free.restype = [ctypes.c_void_p], None
    malloc.free(malloc.malloc(size))


def describe_devices(device: Any, workspace: int | None) -> list[int]:
    """Return the arguments of `vm_initialization`: the device, and for a GPU also the CPU that launches its kernels.

    On a CPU a call returns its memory to malloc, so that sessions that run one after another share it. Five networks
    take 15 MB less this way, and the second call of each has no page fault more (`let_malloc_keep`). If ``workspace``,
    in bytes, is larger than what malloc keeps, or unknown, TVM's pool keeps it for this session.
    """
    on_gpu = device.dlpack_device_type() != _CPU
    if on_gpu:
        devices = [(device, _POOLED), (tvm_ffi.device("cpu", 0), _POOLED)]
    else:
        is_small = workspace is not None and workspace <= MOST_BYTES_OF_MALLOC
        devices = [(device, _MALLOC if is_small else _POOLED)]
        if is_small:
            let_malloc_keep(MOST_BYTES_OF_MALLOC - _HEADER)
    return [number for each, kind in devices for number in (each.dlpack_device_type(), each.index, kind)]
