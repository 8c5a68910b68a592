"""The prelude of children in the CUDA runtime's tests: the runtime, tensors, and error messages."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import tvm_ffi
from cuda_blob import (
    COOPERATIVE,
    DEPENDENT,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    POINTER,
    SHARED,
    Kernel,
    make_cubin,
    make_ptx,
    write_blob,
)

from tvmbuild.package.runtime.cuda.plugin import load_plugin
from tvmbuild.package.runtime.library import call

__all__ = [
    "COOPERATIVE",
    "DEPENDENT",
    "FLOAT32",
    "FLOAT64",
    "INT32",
    "INT64",
    "POINTER",
    "SHARED",
    "Kernel",
    "Thread",
    "call",
    "catch",
    "cuda",
    "describe_devices",
    "download",
    "empty",
    "load_module",
    "make_cubin",
    "make_ptx",
    "np",
    "tvm_ffi",
    "upload",
    "write_blob",
]
load_plugin()


def cuda(index: int = 0) -> tvm_ffi.Device:
    """Return a device."""
    return tvm_ffi.device("cuda", index)


def describe_devices() -> Any:
    """Return the runtime's description of the driver and its devices."""
    return json.loads(call("tvmbuild_cuda.devices"))


def load_module(blob: bytes) -> Any:
    """Return the module in the bytes."""
    return call("ffi.Module.load_from_bytes.cuda", blob)


def empty(size: int, device: tvm_ffi.Device | None = None) -> tvm_ffi.Tensor:
    """Return a tensor of ``size`` bytes."""
    return call("runtime.TVMTensorAllocWithScope", tvm_ffi.Shape((size,)), "uint8", device or cuda(), None)


def upload(values: np.ndarray, device: tvm_ffi.Device | None = None) -> tvm_ffi.Tensor:
    """Return a tensor of bytes on a device with the array's values."""
    tensor = empty(values.nbytes, device)
    call("runtime.TVMTensorCopyFromBytes", tensor, values.ctypes.data_as(ctypes.c_void_p), values.nbytes)
    return tensor


def download(tensor: tvm_ffi.Tensor) -> np.ndarray:
    """Return a tensor's bytes."""
    values = np.empty(tensor.shape[0], np.uint8)
    call("runtime.TVMTensorCopyToBytes", tensor, values.ctypes.data_as(ctypes.c_void_p), values.nbytes)
    return values


def catch(function: Callable[..., object], *arguments: object) -> str:
    """Call the function, which must fail; return the first line of its message."""
    try:
        function(*arguments)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "no error"
