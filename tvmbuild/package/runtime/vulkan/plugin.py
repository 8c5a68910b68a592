"""Loading of tvmbuild's Vulkan runtime: it is found or compiled, checked, and registered with TVM."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock

import tvm_ffi

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.layout import cache_dir
from tvmbuild.base.processes import check_loadable
from tvmbuild.base.progress import report_progress
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.device_errors import explain
from tvmbuild.package.runtime.library import call, has_function, load_runtime
from tvmbuild.package.runtime.vulkan.build import MACHINES, NAME, compile_library, list_sources, place_prebuilt
from tvmbuild.package.tvm_files import has_vulkan_runtime

CHOICE = "TVMBUILD_VULKAN"
"""The environment variable that chooses the Vulkan runtime.

`tvm` forbids tvmbuild's runtime, and `own` requires it. Otherwise it is used if TVM has no Vulkan runtime.
"""
PINNED = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}
"""The versions for which the runtime is made: native/tvm_classes.h repeats declarations of their C++ classes."""
_API = "device_api.vulkan"
_OWN = "tvmbuild_vulkan.devices"
_lock = Lock()


def load_plugin() -> None:
    """Load tvmbuild's Vulkan runtime and register it as TVM's device kind `vulkan`, unless TVM has its own runtime.

    This needs no driver and loads none. Raises TvmbuildError if the runtime cannot be loaded.
    """
    with _lock:
        load_runtime()
        choice = os.environ.get(CHOICE, "")
        if choice == "tvm" or has_function(_OWN):
            return
        if not has_function(_API):
            _load(find_library(machine_of(platform.machine())))
        elif choice == "own":
            raise TvmbuildError(f"{CHOICE}=own, but this TVM has a Vulkan runtime already", f"unset {CHOICE}")


def is_available() -> bool:
    """Return whether tvmbuild's Vulkan runtime would be used on this machine, and exists or can be compiled."""
    choice = os.environ.get(CHOICE, "")
    if choice == "tvm":
        return False
    if choice != "own" and not has_function(_OWN) and (has_vulkan_runtime() or has_function(_API)):
        return False
    machine = machine_of(platform.machine())
    compiles = machine in MACHINES and importlib.util.find_spec("ziglang") is not None
    return compiles or place_prebuilt(machine).is_file()


def explain_left_out() -> str | None:
    """Return a message with the remedy if a setting disables tvmbuild's Vulkan runtime, or else None."""
    if os.environ.get(CHOICE) != "tvm":
        return None
    return f"{CHOICE}=tvm leaves tvmbuild's Vulkan out, and this TVM has none; unset it"


@cache
def check_device(index: int) -> None:
    """Raise TvmbuildError if TVM and tvmbuild's Vulkan runtime do not work together, by a test of copies and errors.

    The test starts the Vulkan device, so it should be called only before the device is used. It does nothing if TVM
    uses its own Vulkan runtime.
    """
    if not has_function(_OWN):
        return
    device = tvm_ffi.device("vulkan", index)
    sent = ctypes.create_string_buffer(bytes(range(1, 65)))
    got = ctypes.create_string_buffer(len(sent))
    try:
        tensor = call("runtime.TVMTensorAllocWithScope", tvm_ffi.Shape((len(sent),)), "uint8", device, None)
        call("runtime.TVMTensorCopyFromBytes", tensor, ctypes.cast(sent, ctypes.c_void_p), len(sent))
        call("runtime.TVMTensorCopyToBytes", tensor, ctypes.cast(got, ctypes.c_void_p), len(sent))
    except RuntimeError as error:
        said = explain(error)
        raise TvmbuildError(f"the Vulkan device {index} cannot be used: {said.message}", said.hint) from error
    try:
        call("runtime.TVMTensorAllocWithScope", tvm_ffi.Shape((1 << 60,)), "uint8", device, None)
        reason = ""
    except RuntimeError as error:
        reason = str(error)
    if got.raw != sent.raw or "Vulkan: out of memory" not in reason:
        raise TvmbuildError(
            "the Vulkan runtime and this TVM do not understand each other", f"{CHOICE}=tvm leaves it out"
        )


def explain_refusal() -> str | None:
    """Return why tvmbuild's Vulkan runtime accepts none of the driver's devices.

    Returns None if it accepts one, or if the runtime is not loaded.
    """
    if not has_function(_OWN):
        return None
    try:
        call(_OWN)
    except RuntimeError as error:
        return str(error).strip().splitlines()[-1].removeprefix("Vulkan: ")
    return None


def find_library(machine: str) -> Path:
    """Return the library for a machine: from a wheel or a bundle, or else from the cache, where it is compiled once.

    Raises TvmbuildError if the machine is not supported, or if there is no compiler.
    """
    prebuilt = place_prebuilt(machine)
    if prebuilt.is_file():
        return prebuilt
    if machine not in MACHINES:
        raise TvmbuildError(f"there is no Vulkan runtime for {machine}", f"there is one for {' and '.join(MACHINES)}")
    if importlib.util.find_spec("ziglang") is None:
        raise TvmbuildError(
            "the Vulkan runtime must be compiled first, and there is no compiler",
            "pip install ziglang, or install tvmbuild's wheel, which brings the library",
        )
    folder = cache_dir() / "vulkan" / f"{machine}-{_digest()}"
    if not (folder / NAME).is_file():
        return _compile_into(machine, folder)
    return folder / NAME


def _compile_into(machine: str, folder: Path) -> Path:
    """Compile the library into ``folder`` of the cache, and return its path.

    It is compiled beside the destination and renamed, so that several processes may do this at once. If the cache
    cannot be written, the library is in a temporary folder until this process ends.
    """
    report_progress(f"compiling the Vulkan runtime for {machine}, once")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".compiling-") as temporary:
            return compile_library(machine, Path(temporary)).replace(folder / NAME)
    except OSError as error:
        report_progress(
            f"{folder} cannot be written ({error.strerror}): the Vulkan runtime is compiled for each process"
        )
    temporary = tempfile.mkdtemp(prefix="tvmbuild-vulkan-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return compile_library(machine, Path(temporary))


def _digest() -> str:
    """Return a digest of everything that determines the compiled library: sources, options, compiler and headers."""
    digest = hashlib.sha256()
    for source in list_sources():
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    for distribution in ("ziglang", "apache-tvm-ffi"):
        digest.update(f"{distribution} {importlib.metadata.version(distribution)}\0".encode())
    digest.update(Path(compile_library.__code__.co_filename).read_bytes())  # its flags
    return digest.hexdigest()[:16]


def _load(path: Path) -> None:
    """Load the library and let it register itself with TVM.

    Raises TvmbuildError if it was made for another version of TVM, or if it cannot be loaded or registered.
    """
    for name, version in PINNED.items():
        if (found := _version_of(name)) not in (version, None):  # None: a board has only the libraries
            raise TvmbuildError(
                f"the Vulkan runtime is made for {name} {version}, and {found} is installed",
                f"pip install {name}=={version}, or {CHOICE}=tvm with a TVM that has Vulkan",
            )
    check_loadable(path.parent, "XDG_CACHE_HOME" if path.is_relative_to(cache_dir()) else "TMPDIR")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise TvmbuildError(
            f"the Vulkan runtime does not fit this TVM: {error}", f"{CHOICE}=tvm leaves it out"
        ) from error
    library.tvmbuild_vulkan_failure.restype = ctypes.c_char_p
    library.tvmbuild_vulkan_set_folder(os.fsencode(cache_dir() / "vulkan-pipelines"))
    if library.tvmbuild_vulkan_register() != 0:
        reason = library.tvmbuild_vulkan_failure().decode(errors="replace")
        raise TvmbuildError(f"the Vulkan runtime cannot be used: {reason}", f"{CHOICE}=tvm leaves it out")


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
