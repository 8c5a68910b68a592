"""A tensor of another library, which claims a device that this machine need not have."""

from __future__ import annotations

import ctypes
from typing import Any


class _Tensor(ctypes.Structure):
    """DLPack's DLManagedTensor, of float32."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class ForeignTensor:
    """A float32 tensor of that shape on a device by DLPack's number, without memory."""

    def __init__(self, shape: tuple[int, ...], kind: int, index: int) -> None:
        self._device = (kind, index)
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._tensor = _Tensor(64, kind, index, len(shape), 2, 32, 1, self._shape)

    def __dlpack__(self, **_options: Any) -> object:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        capsule: object = make(ctypes.addressof(self._tensor), b"dltensor", None)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device
