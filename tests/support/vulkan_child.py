"""The prelude of children in the Vulkan runtime's tests: the runtime, tensors, and error messages."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import numpy as np
from vulkan_blob import GROUP, Kernel, load_module, write_blob
from vulkan_tensors import ScaleAndAdd, address, download, empty, launch_on, synchronize, upload, vulkan_device

from tvmbuild.package.runtime.library import call
from tvmbuild.package.runtime.vulkan.plugin import load_plugin

__all__ = [
    "GROUP",
    "Event",
    "Kernel",
    "ScaleAndAdd",
    "Thread",
    "address",
    "call",
    "catch",
    "describe_devices",
    "download",
    "empty",
    "gc",
    "launch_on",
    "load_module",
    "memory_of_device",
    "np",
    "synchronize",
    "upload",
    "vulkan_device",
    "write_blob",
]
load_plugin()


def catch(function: Callable[[], object]) -> str | None:
    """Return the error message of a call; None if it succeeds."""
    try:
        function()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None


def describe_devices() -> Any:
    """Return the runtime's description of its devices."""
    return json.loads(call("tvmbuild_vulkan.devices"))


def memory_of_device(index: int = 0) -> tuple[int, int]:
    """Return the total and the free bytes of a device's memory."""
    kind = vulkan_device().dlpack_device_type()
    return call("runtime.GetDeviceAttr", kind, index, 14), call("runtime.GetDeviceAttr", kind, index, 15)
