"""Memory that the CPU and an integrated CUDA card share, so that inputs and outputs need no copies."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import tvm_ffi

from tvmbuild.package.runtime.library import call, has_function

CUDA, VULKAN = 2, 7
_CUDA_HOST = 3
"""DLPack's numbers of device types; the last is page-locked memory."""
_SHARES = "tvmbuild_cuda.shares_memory"
_SHARE = "tvmbuild_cuda.share"
_WITH_OWN_MEMORY = "tvmbuild_cuda.call_with_own_memory"


def shares_memory(device: Any) -> bool:
    """Return whether kernels of this device use page-locked memory of the CPU in place."""
    return device.dlpack_device_type() == CUDA and _shares_memory(device.index)


@cache
def _shares_memory(index: int) -> bool:
    return has_function(_SHARES) and bool(call(_SHARES, index))


def page_locked_array(shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return an uninitialised array in page-locked memory.

    CUDA copies from it at the full speed of the bus, and an integrated card reads it in place.
    """
    return view_array(_allocate(tvm_ffi.Shape(tuple(shape)), tvm_ffi.dtype(dtype)))


def page_locked_tensor(like: Any) -> Any:
    """Return an uninitialised tensor in page-locked memory, with the shape and dtype of another."""
    return _allocate(tvm_ffi.Shape(tuple(like.shape)), like.dtype)


def _allocate(shape: Any, dtype: Any) -> Any:
    return call("runtime.TVMTensorAllocWithScope", shape, dtype, tvm_ffi.Device(_CUDA_HOST, 0), None)


def call_with_own_memory(function: Any, arguments: Sequence[Any], device: Any) -> None:
    """Call a function whose allocations on an integrated card are not for the CPU: the card caches only its own memory.

    A virtual machine's other allocations are its outputs, which the CPU shares.
    """
    if shares_memory(device):
        call(_WITH_OWN_MEMORY, function, *arguments)
    else:
        function(*arguments)


def share_on_device(tensor: Any, device: Any) -> Any:
    """Return a tensor of the CPU as a tensor of the device with the same memory, or None if they do not share it."""
    return call(_SHARE, tensor, device)


def share_on_host(tensor: Any) -> np.ndarray | None:
    """Return a tensor of a device as an array with the same memory, or None if the CPU does not share it.

    This waits for the device.
    """
    shared = call(_SHARE, tensor, tvm_ffi.device("cpu", 0))
    return None if shared is None else view_array(shared)


def view_array(tensor: Any) -> np.ndarray:
    """Return the memory of a tensor of the host as an array.

    It may be written, unlike that of ``np.from_dlpack`` before NumPy 2.1.
    """
    size = math.prod(tensor.shape) * np.dtype(str(tensor.dtype)).itemsize
    memory = (ctypes.c_uint8 * size).from_address(tensor.data_ptr())
    memory.tensor = tensor  # it lives as long as the array
    return np.frombuffer(memoryview(memory), str(tensor.dtype)).reshape(tuple(tensor.shape))
