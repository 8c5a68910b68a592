"""Loading of tvmbuild's CUDA runtime, and its registration with TVM."""

from __future__ import annotations

import platform
from functools import cache
from threading import Lock
from typing import Any

from tvm_ffi import libinfo

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime import native_library
from tvmbuild.package.runtime.library import has_function, load_runtime
from tvmbuild.package.runtime.native_build import CUDA

_lock = Lock()
_TVMS = "tvm_runtime_cuda"
"""TVM's name of its library."""


def is_used() -> bool:
    """Return whether this process uses tvmbuild's CUDA runtime."""
    return native_library.is_loaded(CUDA)


def load_plugin() -> None:
    """Load tvmbuild's CUDA runtime and register it as TVM's device kind `cuda`, unless TVM has registered its own.

    This needs no driver and loads none. Raises TvmbuildError if the runtime cannot be loaded, or if it is wanted and
    this process has TVM's already.
    """
    with _lock:
        load_runtime()
        if native_library.read_choice(CUDA) == "tvm" or native_library.is_loaded(CUDA):
            return
        if not has_function(CUDA.api):
            native_library.load_library(CUDA, native_library.find_library(CUDA, machine_of(platform.machine())))
            _leave_tvms_out()
        elif native_library.read_choice(CUDA) == "own":
            raise TvmbuildError(
                f"{CUDA.choice}=own, but this process has loaded TVM's CUDA runtime already",
                f"unset {CUDA.choice}, or open the package before `import tvm`",
            )


def is_available() -> bool:
    """Return whether tvmbuild's CUDA runtime may be used on this machine, and exists or can be compiled."""
    return native_library.read_choice(CUDA) != "tvm" and native_library.can_be_made(CUDA)


def _leave_tvms_out() -> None:
    """Let a later `import tvm` go on without TVM's CUDA runtime.

    That library registers the kind again when it is loaded, which ends the process. `import tvm` loads it by a function
    of tvm_ffi, and takes an OSError for a machine without a card.
    """
    load = libinfo.load_lib_ctypes

    def load_others(package: str, target_name: str, *arguments: Any, **options: Any) -> Any:
        if target_name == _TVMS:
            raise OSError("this process uses tvmbuild's CUDA runtime")
        return load(package, target_name, *arguments, **options)

    libinfo.load_lib_ctypes = load_others


@cache
def check_device(index: int) -> None:
    """Raise TvmbuildError if TVM and tvmbuild's CUDA runtime do not work together. It is tested once.

    It does nothing if TVM uses its own CUDA runtime.
    """
    if native_library.is_loaded(CUDA):
        native_library.check_device(CUDA, index)


def explain_refusal() -> str | None:
    """Return why tvmbuild's CUDA runtime has no device, or None if it has one or is not used."""
    return native_library.explain_refusal(CUDA)
