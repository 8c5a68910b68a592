"""Instances of TVM's virtual machine, each with the memory that it keeps for its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi

_POOLED_ALLOCATOR = 2
_CPU = 1


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


def describe_devices(device: Any) -> list[int]:
    """Return the arguments of `vm_initialization`: the device, and for a GPU also the CPU that launches its kernels."""
    on_gpu = device.dlpack_device_type() != _CPU
    devices = [device, tvm_ffi.device("cpu", 0)] if on_gpu else [device]
    return [number for each in devices for number in (each.dlpack_device_type(), each.index, _POOLED_ALLOCATOR)]
