"""Questions to Vulkan's loader about the driver and its devices, without TVM.

TVM raises an exception if one of them is missing.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PLUGIN_REMEDY = "`pip install ziglang` compiles it once; tvmbuild's wheels for x86-64 and aarch64 Linux bring it"

Half = Literal["loader", "driver", "device"]

_LOADER = "libvulkan.so.1"
_LIBRARIES = Path("/etc/ld.so.cache")
"""A file that changes when a library is installed. A search for the library itself would start processes."""
_DRIVER_FOLDERS = ("/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d")
_MISSING = {
    "loader": f"Vulkan's loader {_LOADER} is not installed; `apt install mesa-vulkan-drivers` brings it with the "
    "drivers of Intel and AMD, NVIDIA's driver has its own",
    "driver": "Vulkan's loader finds no driver; `apt install mesa-vulkan-drivers` for Intel and AMD (and lavapipe, "
    "which needs no GPU), NVIDIA's own for NVIDIA; VK_ICD_FILENAMES and VK_DRIVER_FILES must name none that is absent",
    "device": "Vulkan's driver finds no device; may this user read /dev/dri (group render)?",
}


@dataclass(frozen=True)
class VulkanDriver:
    """The answer of Vulkan's loader: names of devices, or the first missing part."""

    devices: tuple[str, ...] = ()
    missing: Half | None = None


def explain_driver(missing: str | None) -> str | None:
    """Return a message about the missing part of the driver, with the remedy, or None if ``missing`` is None."""
    return None if missing is None else _MISSING[missing]


def explain_runtime(missing: str | None, *, has_runtime: bool, left_out: str | None = None) -> str | None:
    """Return a message about the parts that Vulkan needs and this machine lacks, or None if it has all.

    ``missing`` is the missing part of the driver. ``left_out`` is the reason why tvmbuild's runtime is not used
    although it could be.
    """
    driver = explain_driver(missing)
    if has_runtime:
        return driver
    runtime = left_out or f"the Vulkan runtime is not compiled, and no compiler is here; {PLUGIN_REMEDY}"
    return runtime if driver is None else f"{runtime}; {driver}"


def list_vulkan_files() -> list[str]:
    """Return texts that identify the inputs of the loader's search for drivers: variables and files.

    If one changes, the answer of ``ask_driver`` may change.
    """
    named = [
        f"{name}={os.environ.get(name)}" for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES", "VK_ADD_DRIVER_FILES")
    ]
    found = sorted(path for folder in _DRIVER_FOLDERS for path in Path(folder).glob("*.json"))
    files = [path for path in (_LIBRARIES, *found) if path.exists()]
    return [*named, *(f"{path} {path.stat().st_mtime_ns}" for path in files)]


class _InstanceInfo(ctypes.Structure):
    """The structure VkInstanceCreateInfo of Vulkan."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.c_void_p),
        ("layers", ctypes.c_uint32),
        ("layer_names", ctypes.c_void_p),
        ("extensions", ctypes.c_uint32),
        ("extension_names", ctypes.c_void_p),
    )


_INSTANCE_INFO = 1
_PROPERTIES_BYTES = 4096
"""The size of the buffer for VkPhysicalDeviceProperties, which has 824 bytes."""
_NAME = slice(20, 276)
"""The bytes of VkPhysicalDeviceProperties that hold the device's name."""


def ask_driver() -> VulkanDriver:
    """Return the devices that Vulkan's loader finds, or the first missing part.

    The loader loads the drivers into this process for a moment.
    """
    try:
        vulkan = ctypes.CDLL(_LOADER)
    except OSError:
        return VulkanDriver(missing="loader")
    instance, info = ctypes.c_void_p(), _InstanceInfo(type=_INSTANCE_INFO)
    if vulkan.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)) != 0:
        return VulkanDriver(missing="driver")
    try:
        count = ctypes.c_uint32()
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        found = (ctypes.c_void_p * count.value)()
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), found)
        names = tuple(_read_name(vulkan, device) for device in found[: count.value])
    finally:
        vulkan.vkDestroyInstance(instance, None)
    return VulkanDriver(names, None if names else "device")


def _read_name(vulkan: ctypes.CDLL, device: int | None) -> str:
    properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
    vulkan.vkGetPhysicalDeviceProperties(ctypes.c_void_p(device), properties)
    return properties.raw[_NAME].partition(b"\0")[0].decode(errors="replace")
