"""Conversion of arrays to TVM's tensors, without a copy if the memory allows it, and back to NumPy's arrays."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from tvmbuild.base.tvm_ffi_import import adopt_torch
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.package.runtime.library import call, has_function
from tvmbuild.package.runtime.shared_memory import (
    CUDA,
    VULKAN,
    page_locked_array,
    share_on_device,
    share_on_host,
    shares_memory,
    view_array,
)

ALIGNMENT = 64
"""The alignment that a tensor's memory needs, in bytes, because compiled code reads whole vectors."""
_ALLOCATE_HOST = "tvmbuild_vulkan.allocate_host"
_LEAST_OF_ITS_OWN = 64 << 10
"""The smallest size, in bytes, of an array with an allocation of its own: Vulkan devices allow some thousands."""
_CPU = 1
"""DLPack's number of the device type."""


def empty_array(shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return an uninitialised array that is aligned, so that TVM can use it without a copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def host_array(shape: Sequence[int], dtype: str, device: Any) -> np.ndarray:
    """Return an uninitialised array for the inputs of a device, which copies from it by itself if its runtime can."""
    kind = device.dlpack_device_type()
    if kind == CUDA:
        return page_locked_array(shape, dtype)
    made = empty_array(shape, dtype)
    if kind != VULKAN or made.nbytes < _LEAST_OF_ITS_OWN or not has_function(_ALLOCATE_HOST):
        return made
    like = tvm_ffi.from_dlpack(made.reshape(-1).view(np.uint8))
    return view_array(call(_ALLOCATE_HOST, device.index, like)).view(dtype).reshape(tuple(shape))


def count_bytes(tensors: Sequence[TensorInfo]) -> list[int]:
    """Return the size of each tensor in bytes."""
    return [math.prod(each.shape) * np.dtype(each.dtype).itemsize for each in tensors]


def read_array(name: str, value: Any) -> Any:
    """Return an input's value as a TVM tensor that shares its memory by DLPack, or else as a NumPy array.

    Raises TvmbuildError if the value has DLPack's interface but cannot be shared. ``name`` is the input's name.
    """
    if isinstance(value, (np.ndarray, tvm_ffi.Tensor)):
        return value
    if hasattr(value, "__dlpack__"):
        if type(value).__module__.partition(".")[0] == "torch":
            adopt_torch()
        try:
            return tvm_ffi.from_dlpack(value)
        except (BufferError, RuntimeError, ValueError, TypeError) as error:
            raise TvmbuildError(f"the input {name} cannot be shared by DLPack: {str(error).splitlines()[0]}") from error
    return np.asarray(value)


def place(name: str, value: Any, device: Any, kept: dict[str, Any], copy: Callable[..., Any] | None = None) -> Any:
    """Return the value of an input as a contiguous, aligned tensor on the device, without a copy if it is one already.

    Copies go into the memory in ``kept`` (input → tensor on a GPU, or aligned array) from an earlier call, because
    allocating takes longer than copying. ``copy`` makes a copy to a GPU as `copy_tensor`, the default, does. Raises
    TvmbuildError for a value on a GPU that is on another device, not contiguous, or not aligned.
    """
    if isinstance(value, tvm_ffi.Tensor):
        if value.device.dlpack_device_type() != _CPU:
            return _keep(name, value, device)
        value = np.from_dlpack(value)
    on_cpu = device.dlpack_device_type() == _CPU
    shared = _share(value, ALIGNMENT if on_cpu else 1)  # a copy to another device takes any address
    if not on_cpu:
        here = _copy_aligned(value) if shared is None else shared
        if shares_memory(device):
            in_place = None if here.data_ptr() % ALIGNMENT else share_on_device(here, device)
            if in_place is not None:
                return in_place
            if name not in kept:
                kept[name] = _empty_shared(value, device)
        kept[name] = (copy or copy_tensor)(here, device, kept.get(name))
        return kept[name]
    if shared is not None:
        return shared
    if name not in kept:
        kept[name] = empty_array(value.shape, str(value.dtype))
    kept[name][...] = value
    return tvm_ffi.from_dlpack(kept[name])


def to_device(tensor: Any, device: Any, into: Any = None) -> Any:
    """Return a CPU tensor itself if the device is a CPU, or else its copy on the device.

    If ``into`` is given, the copy is written into this tensor.
    """
    return tensor if device.dlpack_device_type() == _CPU else copy_tensor(tensor, device, into)


def find_shared(tensors: Sequence[Any], inputs: Sequence[Any], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the places of the tensors (outputs) that share memory with an input, because a model may return an input.

    ``sizes`` are the inputs' sizes in bytes. The places are the same in each call of a function.
    """
    taken = [(each.data_ptr(), each.data_ptr() + size) for each, size in zip(inputs, sizes, strict=True)]
    return tuple(
        place for place, tensor in enumerate(tensors) if any(start <= tensor.data_ptr() < end for start, end in taken)
    )


def copy_tensor(tensor: Any, device: Any = None, into: Any = None) -> Any:
    """Return a copy of a tensor on a device, by default its own. If ``into`` is given, it becomes the copy."""
    if into is None:
        into = allocate_like(tensor, device or tensor.device)
    call("runtime.TVMTensorCopyFromTo", tensor, into)
    return into


def allocate_like(tensor: Any, device: Any) -> Any:
    """Return an uninitialised tensor on a device with the shape and dtype of another."""
    shape = tvm_ffi.Shape(tuple(tensor.shape))
    return call("runtime.TVMTensorAllocWithScope", shape, tensor.dtype, device, None)


def to_array(tensor: Any) -> np.ndarray:
    """Return a copy of the tensor, which may be on any device, as a NumPy array."""
    if tensor.device.dlpack_device_type() == _CPU:
        return _copy_of_cpu(tensor)
    array = np.empty(tuple(tensor.shape), str(tensor.dtype))
    call("runtime.TVMTensorCopyToBytes", tensor, array.ctypes.data_as(ctypes.c_void_p), array.nbytes)
    return array


def copy_block(tensor: Any, into: np.ndarray) -> None:
    """Copy the beginning of a tensor, which may be on any device, along each of its axes into an array."""
    if tensor.device.dlpack_device_type() != _CPU:
        if tuple(tensor.shape) == into.shape and into.flags.c_contiguous:
            call("runtime.TVMTensorCopyToBytes", tensor, into.ctypes.data_as(ctypes.c_void_p), into.nbytes)
            return
        whole = to_array(tensor)
    else:
        whole = np.from_dlpack(tensor)
    into[...] = whole[tuple(slice(length) for length in into.shape)]


def to_arrays(tensors: Sequence[Any]) -> list[np.ndarray]:
    """Return copies of tensors, which are all on the same device, as NumPy arrays.

    On a Vulkan device, tvmbuild's runtime waits only once for all copies. Tensors in memory that the CPU shares with an
    integrated card are not copied: an array keeps its tensor's memory.
    """
    kind = tensors[0].device.dlpack_device_type() if tensors else _CPU
    if kind == _CPU:
        return [_copy_of_cpu(each) for each in tensors]
    if shares_memory(tensors[0].device):
        return _take_shared(tensors)
    together = "tvmbuild_vulkan.copy_to_host"
    if len(tensors) < 2 or kind != VULKAN or not has_function(together):
        return [to_array(each) for each in tensors]
    arrays = [np.empty(tuple(each.shape), str(each.dtype)) for each in tensors]
    places = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    call(together, *(value for pair in zip(tensors, places, strict=True) for value in pair))
    return arrays


def _copy_of_cpu(tensor: Any) -> np.ndarray:
    copy: np.ndarray = np.from_dlpack(tensor).copy()
    return copy


def _share(value: np.ndarray, alignment: int) -> Any:
    """Return the array as a tensor with the same memory, or None if it is not contiguous, writable and aligned.

    A read-only array is not shared, because NumPy before 2.1 does not export it.
    """
    flags = value.flags
    if not (flags.c_contiguous and flags.writeable):
        return None
    tensor = tvm_ffi.from_dlpack(value)
    return None if tensor.data_ptr() % alignment else tensor


def _take_shared(tensors: Sequence[Any]) -> list[np.ndarray]:
    """Return the tensors as arrays with the same memory where the CPU shares it, or else copies."""
    taken: set[int] = set()  # a model may return a tensor twice, and the caller may write into one of the arrays
    arrays = []
    for tensor in tensors:
        shared = None if tensor.data_ptr() in taken else share_on_host(tensor)
        taken.add(tensor.data_ptr())
        arrays.append(to_array(tensor) if shared is None else shared)
    return arrays


def _empty_shared(value: np.ndarray, device: Any) -> Any:
    return share_on_device(tvm_ffi.from_dlpack(page_locked_array(value.shape, str(value.dtype))), device)


def _copy_aligned(value: np.ndarray) -> Any:
    copy = empty_array(value.shape, str(value.dtype))
    copy[...] = value
    return tvm_ffi.from_dlpack(copy)


def _keep(name: str, tensor: Any, device: Any) -> Any:
    if tensor.device.dlpack_device_type() != device.dlpack_device_type() or tensor.device.index != device.index:
        raise TvmbuildError(f"the input {name} is on {tensor.device}; the package runs on {device}", "move it there")
    if not tensor.is_contiguous() or tensor.data_ptr() % ALIGNMENT:
        raise TvmbuildError(f"the input {name} on {tensor.device} is not contiguous and aligned", "pass a copy of it")
    return tensor
