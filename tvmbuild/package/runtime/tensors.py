"""Arrays of other libraries as TVM's tensors, in place where their memory allows it, and back as NumPy's."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm_ffi

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.library import call, has_function

ALIGNMENT = 64
"""The alignment of a tensor's memory in bytes: compiled code reads whole vectors."""
_CPU, _VULKAN = 1, 7
"""DLPack's numbers of the device types."""


def empty_array(shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return an array that TVM can use in place."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def read_array(name: str, value: Any) -> Any:
    """Return an input as an object with `shape` and `dtype`: a tensor that shares its memory, else a NumPy array."""
    if isinstance(value, np.ndarray | tvm_ffi.Tensor):
        return value
    if hasattr(value, "__dlpack__"):
        try:
            return tvm_ffi.from_dlpack(value)
        except (BufferError, RuntimeError, ValueError, TypeError) as error:
            raise TvmbuildError(f"the input {name} cannot be shared by DLPack: {str(error).splitlines()[0]}") from error
    return np.asarray(value)


def place(name: str, value: Any, device: Any, kept: dict[str, Any]) -> Any:
    """Return the tensor on the device: in place if it is there, contiguous and aligned, else a copy.

    ``kept`` has the memory of earlier copies to other devices, by name: allocating it takes longer than copying.
    """
    if isinstance(value, tvm_ffi.Tensor):
        if value.device.dlpack_device_type() != _CPU:
            return _keep(name, value, device)
        value = np.from_dlpack(value)
    if device.dlpack_device_type() != _CPU:
        kept[name] = to_device(tvm_ffi.from_dlpack(_aligned(value)), device, kept.get(name))
        return kept[name]
    return tvm_ffi.from_dlpack(_aligned(value), require_alignment=ALIGNMENT, require_contiguous=True)


def to_device(tensor: Any, device: Any, into: Any = None) -> Any:
    """Return a CPU tensor on the device: itself, or a copy, in the tensor ``into`` if there is one."""
    return tensor if device.dlpack_device_type() == _CPU else _copy(tensor, device, into)


def keep_apart(tensors: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the tensors, with a copy of each that shares an input's memory: a model may return its input."""
    taken = [(each.data_ptr(), each.data_ptr() + each.numel() * each.dtype.itemsize) for each in inputs]
    return [
        _copy(tensor) if any(start <= tensor.data_ptr() < end for start, end in taken) else tensor for tensor in tensors
    ]


def to_array(tensor: Any) -> np.ndarray:
    """Return a copy of the tensor, on whatever device it is."""
    array = np.empty(tuple(tensor.shape), str(tensor.dtype))
    call("runtime.TVMTensorCopyToBytes", tensor, array.ctypes.data_as(ctypes.c_void_p), array.nbytes)
    return array


def to_arrays(tensors: Sequence[Any]) -> list[np.ndarray]:
    """Return copies of tensors of one device. Our Vulkan runtime waits once for all of them."""
    together = "tvmbuild_vulkan.copy_to_host"
    if len(tensors) < 2 or tensors[0].device.dlpack_device_type() != _VULKAN or not has_function(together):
        return [to_array(each) for each in tensors]
    arrays = [np.empty(tuple(each.shape), str(each.dtype)) for each in tensors]
    places = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    call(together, *(value for pair in zip(tensors, places, strict=True) for value in pair))
    return arrays


def _copy(tensor: Any, device: Any = None, into: Any = None) -> Any:
    shape = tvm_ffi.Shape(tuple(tensor.shape))
    if into is None:
        into = call("runtime.TVMTensorAllocWithScope", shape, tensor.dtype, device or tensor.device, None)
    call("runtime.TVMTensorCopyFromTo", tensor, into)
    return into


def _aligned(value: np.ndarray) -> np.ndarray:
    # A read-only array is copied, because NumPy before 2.1 does not export it.
    if value.flags.c_contiguous and value.flags.writeable and value.ctypes.data % ALIGNMENT == 0:
        return value
    copy = empty_array(value.shape, str(value.dtype))
    copy[...] = value
    return copy


def _keep(name: str, tensor: Any, device: Any) -> Any:
    if tensor.device.dlpack_device_type() != device.dlpack_device_type() or tensor.device.index != device.index:
        raise TvmbuildError(f"the input {name} is on {tensor.device}; the package runs on {device}", "move it there")
    if not tensor.is_contiguous() or tensor.data_ptr() % ALIGNMENT:
        raise TvmbuildError(f"the input {name} on {tensor.device} is not contiguous and aligned", "pass a copy of it")
    return tensor
