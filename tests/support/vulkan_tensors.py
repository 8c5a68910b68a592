"""Tensors on the Vulkan device, and launches as a package's host code makes them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import tvm_ffi
from vulkan_blob import GROUP, Kernel, load_module, write_blob

from tvmbuild.package.runtime.library import call
from tvmbuild.package.runtime.tensors import to_array


def vulkan_device(index: int = 0) -> Any:
    return tvm_ffi.device("vulkan", index)


def launch_on(index: int) -> None:
    """Let this thread's kernels run on that device, as host code does before its launches."""
    call("__tvm_set_device", vulkan_device().dlpack_device_type(), index)


def empty(count: int, device: int = 0) -> Any:
    return call("runtime.TVMTensorAllocWithScope", tvm_ffi.Shape((count,)), "float32", vulkan_device(device), None)


def upload(values: np.ndarray, into: Any = None, device: int = 0) -> Any:
    target = empty(values.size, device) if into is None else into
    call("runtime.TVMTensorCopyFromTo", tvm_ffi.from_dlpack(np.ascontiguousarray(values)), target)
    return target


def download(tensor: Any) -> np.ndarray:
    return to_array(tensor)


def synchronize(device: int = 0) -> None:
    call("runtime.Device_StreamSync", vulkan_device(device), 0)


def address(tensor: Any, offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr() + offset)


class ScaleAndAdd:
    """The kernel `out = a * scale + b`, on the device."""

    def __init__(self, blob: bytes | None = None) -> None:
        self.module = load_module(blob or write_blob(Kernel()))
        self.function = self.module.get_function("scale_and_add")

    def __call__(self, a: Any, b: Any, out: Any, scale: float = 1.0) -> None:
        self.function(address(a), address(b), address(out), scale, out.shape[0] // GROUP)
