"""Loading of tvmbuild's Vulkan runtime, and its registration with TVM."""

from __future__ import annotations

import os
import platform
from functools import cache
from threading import Lock

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.layout import cache_dir
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime import native_library
from tvmbuild.package.runtime.library import has_function, load_runtime
from tvmbuild.package.runtime.native_build import VULKAN
from tvmbuild.package.tvm_files import has_vulkan_runtime

CHOICE = VULKAN.choice
"""The environment variable that chooses the Vulkan runtime.

`tvm` forbids tvmbuild's runtime, and `own` requires it. Otherwise it is used if TVM has no Vulkan runtime.
"""
_lock = Lock()


def load_plugin() -> None:
    """Load tvmbuild's Vulkan runtime and register it as TVM's device kind `vulkan`, unless TVM has its own runtime.

    This needs no driver and loads none. Raises TvmbuildError if the runtime cannot be loaded.
    """
    with _lock:
        load_runtime()
        choice = native_library.read_choice(VULKAN)
        if choice == "tvm" or native_library.is_loaded(VULKAN):
            return
        if not has_function(VULKAN.api):
            path = native_library.find_library(VULKAN, machine_of(platform.machine()))
            library = native_library.load_library(VULKAN, path)
            library.tvmbuild_vulkan_set_folder(os.fsencode(cache_dir() / "vulkan-pipelines"))
        elif choice == "own":
            raise TvmbuildError(f"{CHOICE}=own, but this TVM has a Vulkan runtime already", f"unset {CHOICE}")


def is_available() -> bool:
    """Return whether tvmbuild's Vulkan runtime would be used on this machine, and exists or can be compiled."""
    choice = native_library.read_choice(VULKAN)
    if choice == "tvm":
        return False
    is_loaded = native_library.is_loaded(VULKAN)
    if choice != "own" and not is_loaded and (has_vulkan_runtime() or has_function(VULKAN.api)):
        return False
    return native_library.can_be_made(VULKAN)


def explain_left_out() -> str | None:
    """Return a message with the remedy if a setting disables tvmbuild's Vulkan runtime, or else None."""
    if native_library.read_choice(VULKAN) != "tvm":
        return None
    return f"{CHOICE}=tvm leaves tvmbuild's Vulkan out, and this TVM has none; unset it"


@cache
def check_device(index: int) -> None:
    """Raise TvmbuildError if TVM and tvmbuild's Vulkan runtime do not work together. It is tested once.

    It does nothing if TVM uses its own Vulkan runtime.
    """
    if native_library.is_loaded(VULKAN):
        native_library.check_device(VULKAN, index)


def explain_refusal() -> str | None:
    """Return why tvmbuild's Vulkan runtime accepts none of the driver's devices, or None if it does or is not used."""
    return native_library.explain_refusal(VULKAN)
