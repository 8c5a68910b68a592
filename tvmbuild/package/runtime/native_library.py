"""Finding, compiling, loading and testing of tvmbuild's own device runtimes."""

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
from pathlib import Path

import tvm_ffi

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.layout import cache_dir
from tvmbuild.base.loadable import check_loadable
from tvmbuild.base.progress import report_progress
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.device_errors import explain
from tvmbuild.package.runtime.library import call, has_function
from tvmbuild.package.runtime.native_build import (
    MACHINES,
    NativeRuntime,
    compile_library,
    list_sources,
    place_prebuilt,
)

PINNED = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}
"""The versions of TVM that the runtimes work with: native/tvm_classes.h repeats their C++ declarations."""


def is_loaded(runtime: NativeRuntime) -> bool:
    """Return whether this process uses tvmbuild's runtime for the kind."""
    return has_function(runtime.devices)


def can_be_made(runtime: NativeRuntime) -> bool:
    """Return whether the library for this machine exists or can be compiled."""
    machine = machine_of(platform.machine())
    compiles = machine in MACHINES and importlib.util.find_spec("ziglang") is not None
    return compiles or place_prebuilt(runtime, machine).is_file()


def find_library(runtime: NativeRuntime, machine: str) -> Path:
    """Return the library for a machine: from a wheel or a bundle, or else from the cache, where it is compiled once.

    Raises TvmbuildError if the machine is not supported, or if there is no compiler.
    """
    prebuilt = place_prebuilt(runtime, machine)
    if prebuilt.is_file():
        return prebuilt
    if machine not in MACHINES:
        raise TvmbuildError(
            f"there is no {runtime.title} runtime for {machine}", f"there is one for {' and '.join(MACHINES)}"
        )
    if importlib.util.find_spec("ziglang") is None:
        raise TvmbuildError(
            f"the {runtime.title} runtime must be compiled first, and there is no compiler",
            "pip install ziglang, or install tvmbuild's wheel, which brings the library",
        )
    folder = cache_dir() / runtime.kind / f"{machine}-{_digest(runtime)}"
    if not (folder / runtime.library).is_file():
        return _compile_into(runtime, machine, folder)
    return folder / runtime.library


def load_library(runtime: NativeRuntime, path: Path) -> ctypes.CDLL:
    """Load the library and let it register itself with TVM. Return the library.

    Raises TvmbuildError if it was made for another version of TVM, or if it cannot be loaded or registered.
    """
    leave_out = f"{runtime.choice}=tvm leaves it out"
    for name, version in PINNED.items():
        if (found := _version_of(name)) not in (version, None):  # None: a board has only the libraries
            raise TvmbuildError(
                f"the {runtime.title} runtime is made for {name} {version}, and {found} is installed",
                f"pip install {name}=={version}, or {runtime.choice}=tvm with a TVM that has {runtime.title}",
            )
    check_loadable(path.parent, "XDG_CACHE_HOME" if path.is_relative_to(cache_dir()) else "TMPDIR")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise TvmbuildError(f"the {runtime.title} runtime does not fit this TVM: {error}", leave_out) from error
    explain_failure = library[f"tvmbuild_{runtime.kind}_failure"]
    explain_failure.restype = ctypes.c_char_p
    if library[f"tvmbuild_{runtime.kind}_register"]() != 0:
        reason = explain_failure().decode(errors="replace")
        raise TvmbuildError(f"the {runtime.title} runtime cannot be used: {reason}", leave_out)
    return library


def check_device(runtime: NativeRuntime, index: int) -> None:
    """Raise TvmbuildError if TVM and the runtime do not work together, by a test of copies and errors.

    The test starts the device, so it should be called only before the device is used.
    """
    device = tvm_ffi.device(runtime.kind, index)
    sent = ctypes.create_string_buffer(bytes(range(1, 65)))
    got = ctypes.create_string_buffer(len(sent))
    try:
        tensor = call("runtime.TVMTensorAllocWithScope", tvm_ffi.Shape((len(sent),)), "uint8", device, None)
        call("runtime.TVMTensorCopyFromBytes", tensor, ctypes.cast(sent, ctypes.c_void_p), len(sent))
        call("runtime.TVMTensorCopyToBytes", tensor, ctypes.cast(got, ctypes.c_void_p), len(sent))
        is_refused = _refuses_too_much(runtime, device)
    except RuntimeError as error:
        said = explain(error)
        raise TvmbuildError(f"the {runtime.title} device {index} cannot be used: {said.message}", said.hint) from error
    if got.raw != sent.raw or not is_refused:
        raise TvmbuildError(
            f"the {runtime.title} runtime and this TVM do not understand each other",
            f"{runtime.choice}=tvm leaves it out",
        )


def _refuses_too_much(runtime: NativeRuntime, device: tvm_ffi.Device) -> bool:
    """Return whether an allocation of more memory than any device has ends with the runtime's own error.

    Raises RuntimeError if the runtime fails for another reason.
    """
    try:
        call("runtime.TVMTensorAllocWithScope", tvm_ffi.Shape((1 << 60,)), "uint8", device, None)
    except RuntimeError as error:
        if f"{runtime.title}: out of memory" in str(error):
            return True
        if str(error).startswith(f"{runtime.title}: "):
            raise
    return False


def explain_refusal(runtime: NativeRuntime) -> str | None:
    """Return why the runtime accepts none of the driver's devices.

    Returns None if it accepts one, or if the runtime is not loaded.
    """
    if not is_loaded(runtime):
        return None
    try:
        call(runtime.devices)
    except RuntimeError as error:
        return str(error).strip().splitlines()[-1].removeprefix(f"{runtime.title}: ")
    return None


def _compile_into(runtime: NativeRuntime, machine: str, folder: Path) -> Path:
    """Compile the library into ``folder`` of the cache, and return its path.

    It is compiled beside the destination and renamed, so that several processes may do this at once. If the cache
    cannot be written, the library is in a temporary folder until this process ends.
    """
    report_progress(f"compiling the {runtime.title} runtime for {machine}, once")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".compiling-") as temporary:
            return compile_library(runtime, machine, Path(temporary)).replace(folder / runtime.library)
    except OSError as error:
        report_progress(
            f"{folder} cannot be written ({error.strerror}): the {runtime.title} runtime is compiled for each process"
        )
    temporary = tempfile.mkdtemp(prefix=f"tvmbuild-{runtime.kind}-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return compile_library(runtime, machine, Path(temporary))


def _digest(runtime: NativeRuntime) -> str:
    """Return a digest of everything that determines the compiled library: sources, options, compiler and headers."""
    digest = hashlib.sha256()
    for source in list_sources(runtime):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    for distribution in ("ziglang", "apache-tvm-ffi"):
        digest.update(f"{distribution} {importlib.metadata.version(distribution)}\0".encode())
    digest.update(Path(compile_library.__code__.co_filename).read_bytes())  # its flags
    return digest.hexdigest()[:16]


def read_choice(runtime: NativeRuntime) -> str:
    """Return `own` for tvmbuild's runtime, `tvm` for TVM's, or an empty text if the environment chooses none of them.

    Raises TvmbuildError if the environment variable has another value.
    """
    choice = os.environ.get(runtime.choice, "")
    if choice not in {"", "own", "tvm"}:
        raise TvmbuildError(f"{runtime.choice}={choice} chooses no runtime", "write own or tvm, or unset it")
    return choice


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
