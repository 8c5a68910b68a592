"""Checks that this machine's CPU, GPU and TVM runtime can run a package, before the package could crash."""

from __future__ import annotations

import importlib
import platform
import re
import warnings
from typing import TYPE_CHECKING, Any

import tvm_ffi

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.cpu_features import X86_FEATURES, X86_LEVELS
from tvmbuild.base.host_cpu import cpu_flags, machine_of
from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.base.progress import report_progress
from tvmbuild.errors import CannotRunError
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.library import call, has_function, load_library, load_runtime
from tvmbuild.package.tvm_files import has_vulkan_runtime

if TYPE_CHECKING:
    from importlib import metadata

    from tvmbuild.base import cuda_versions, vulkan_driver
    from tvmbuild.package.runtime import native_build
else:  # for GPUs
    metadata = import_lazily("importlib.metadata")
    cuda_versions = import_lazily("tvmbuild.base.cuda_versions")
    native_build = import_lazily("tvmbuild.package.runtime.native_build")
    vulkan_driver = import_lazily("tvmbuild.base.vulkan_driver")

_PLUGINS = {
    "cuda": "tvmbuild.package.runtime.cuda.plugin",
    "vulkan": "tvmbuild.package.runtime.vulkan.plugin",
}
_EXISTS, _COMPUTE_VERSION, _DEVICE_NAME, _DRIVER_VERSION = 0, 4, 5, 12
"""The numbers of device attributes in TVM's function `runtime.GetDeviceAttr`."""


def check_cpu(target: PackageTarget) -> None:
    """Raise CannotRunError if the package's target shows that this CPU cannot run its code.

    The check covers the architecture, and the instruction sets that the package states if the kernel lists this CPU's.
    """
    attributes = target.cpu
    triple = str(attributes.get("mtriple", ""))
    here, wanted = machine_of(platform.machine()), machine_of(triple)
    if wanted and wanted != here:
        raise CannotRunError(
            f"the package is built for {wanted} ({target.name}); this machine is {here}",
            "run it on its device, or build for a target of this machine",
        )
    present = cpu_flags()
    missing = sorted(required_flags(target) - present) if present else []
    if missing:
        raise CannotRunError(
            f"the package is built for {attributes.get('mcpu', target.name)}; this CPU has no {', '.join(missing)}",
            "build for a target with a lower mcpu",
        )


def required_flags(target: PackageTarget) -> frozenset[str]:
    """Return the instruction sets that a package needs, in the spelling of /proc/cpuinfo.

    For an older package, which does not state them, these are the levels of x86-64 (`x86-64-v3`) and the x86 features
    in ``mattr``. Only the compiler knows those of another ``mcpu``.
    """
    if target.flags is not None:
        return frozenset(target.flags)
    attributes = target.cpu
    machine = machine_of(str(attributes.get("mtriple", "")) or platform.machine())
    return _read_features(attributes) if machine == "x86_64" else frozenset()


def _read_features(attributes: Attributes) -> frozenset[str]:
    needed = set(X86_LEVELS.get(str(attributes.get("mcpu", "")), frozenset()))
    mattr = attributes.get("mattr", ())
    for entry in mattr if isinstance(mattr, tuple) else str(mattr).split(","):
        name = str(entry)
        if name.startswith("+") and name[1:] in X86_FEATURES:
            needed.add(X86_FEATURES[name[1:]])
        elif name.startswith("-"):
            needed.discard(X86_FEATURES.get(name[1:], name[1:]))
    return frozenset(needed)


def find_device(kind: str) -> Any:
    """Load the runtime for a target's kind and return this machine's first device of that kind.

    Raises CannotRunError if the runtime or the device is missing, or if they do not work.
    """
    if kind == "llvm":
        return tvm_ffi.device("cpu", 0)
    if kind == "vulkan":
        _check_vulkan()
    load_backend(kind)
    if kind == "cuda":
        _plugin(kind).load_plugin()  # it refuses if the process has TVM's, and a setting asks for tvmbuild's
    device = tvm_ffi.device(kind, 0)
    if not _read_attribute(device, _EXISTS):
        refusal = _plugin(kind).explain_refusal()
        why = f": {refusal}" if refusal else ""
        raise CannotRunError(f"the package needs a {kind} device, and this machine has none that answers{why}")
    _plugin(kind).check_device(0)
    return device


def _read_attribute(device: Any, attribute: int) -> Any:
    return call("runtime.GetDeviceAttr", device.dlpack_device_type(), device.index, attribute)


def check_card(target: PackageTarget, device: Any) -> None:
    """Raise CannotRunError if this card, or its driver, cannot run the kernels of a CUDA package."""
    _check_card_driver(target, device)
    arch = str(target.attributes.get("arch", ""))
    version, name = (str(_read_attribute(device, each)) for each in (_COMPUTE_VERSION, _DEVICE_NAME))
    if not runs_on_card(arch, version):
        if target.attributes.get("ptx") and is_later_card(arch, version) and _plugin("cuda").is_used():
            report_progress(f"the driver compiles the kernels for {name}, and keeps them")
            return
        here = f"sm_{version.replace('.', '')}"
        raise CannotRunError(
            f"the package's kernels are for {arch} ({target.name}); this card, {name}, is {here}",
            "build for a target with the `arch` of this card",
        )


def _check_card_driver(target: PackageTarget, device: Any) -> None:
    """Raise CannotRunError if the driver is older than the package's code needs. TVM's runtime tells no version."""
    wanted = str(target.attributes.get("driver", ""))
    number = _read_attribute(device, _DRIVER_VERSION)
    if not wanted or not isinstance(number, int):
        return
    found = number // 1000, number % 1000 // 10
    if found < cuda_versions.read_version(wanted):
        raise CannotRunError(
            f"the package's kernels need a driver of CUDA {wanted} or later ({target.name}); this machine's is of CUDA "
            f"{cuda_versions.show_version(found)}",
            f'update the driver, or build for a target with `driver: "{cuda_versions.show_version(found)}"`',
        )


def is_later_card(arch: str, version: str) -> bool:
    """Return whether a card of the compute capability ``version`` (`8.9`) is later than ``arch`` (`sm_86`)."""
    return cuda_versions.read_arch(arch) < cuda_versions.read_arch(f"sm_{version.replace('.', '')}")


def runs_on_card(arch: str, version: str) -> bool:
    """Return whether machine code for ``arch`` (`sm_86`) runs on a card of the compute capability ``version`` (`8.9`).

    It runs on cards with the same major number and an equal or higher minor number. Code for `sm_90a` runs only on
    cards of exactly 9.0, and code for a Jetson (`sm_87`) or on a Jetson only on its own capability. If either text has
    another form, the result is True.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
    """
    wanted, card = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch), re.fullmatch(r"(\d+)\.(\d)", version)
    if wanted is None or card is None:
        return True  # nothing to compare
    if wanted[3] == "a" or cuda_versions.TEGRA & {int(wanted[1] + wanted[2]), int(card[1] + card[2])}:
        return wanted.group(1, 2) == card.group(1, 2)
    return wanted[1] == card[1] and int(wanted[2]) <= int(card[2])


def load_backend(kind: str) -> None:
    """Load the backend of a GPU ``kind`` into TVM's runtime, which loads no backend by itself.

    Raises CannotRunError if the backend is missing.
    """
    reason = try_backend(kind)
    if not has_function(f"device_api.{kind}"):
        raise CannotRunError(
            f"the package needs TVM's {kind} runtime, which is not there{reason}",
            f"install the {kind} driver and libraries, and a TVM built with {kind}",
        )


def try_backend(kind: str) -> str:
    """Load the library or plugin that has the backend of a GPU ``kind``, if one exists.

    Returns an empty text, or the reason why TVM's own library for the backend could not be loaded.
    """
    load_runtime()
    if has_function(f"device_api.{kind}"):
        return ""
    if kind in _PLUGINS and _plugin(kind).is_available():
        _plugin(kind).load_plugin()
        return ""
    try:
        load_library(f"tvm_runtime_{kind}")
    except (OSError, RuntimeError) as error:
        _load_plugins()
        return f": {str(error).splitlines()[0]}"
    return ""


def _plugin(kind: str) -> Any:
    """Return the module that loads tvmbuild's runtime for a kind of GPU. Packages for CPUs do not need it."""
    return importlib.import_module(_PLUGINS[kind])


def _load_plugins() -> None:
    """Load the backends that other Python distributions bring (entry points `tvm.backends`), as `import tvm` does."""
    for plugin in metadata.entry_points(group="tvm.backends"):
        try:
            plugin.load()()
        except Exception as error:  # noqa: BLE001, PERF203 - another plugin may bring the backend
            warnings.warn(f"the tvm.backends plugin {plugin.name} failed: {error}", stacklevel=2)


def _check_vulkan() -> None:
    """Raise CannotRunError if the Vulkan driver or the Vulkan runtime is missing. Without a driver TVM would crash."""
    missing = vulkan_driver.ask_driver().missing
    try_backend("vulkan")
    has_runtime = has_function("device_api.vulkan") or (missing == "loader" and has_vulkan_runtime())
    problem = vulkan_driver.explain_runtime(
        missing, has_runtime=has_runtime, left_out=_plugin("vulkan").explain_left_out()
    )
    if problem is not None:
        raise CannotRunError("the package runs on a Vulkan device, and this machine cannot run it", problem)
