"""Whether this machine's CPU and TVM runtime can run a package, told before anything crashes."""

from __future__ import annotations

import platform
from typing import Any

import tvm_ffi

from tvmbuild.cpu_features import X86_FEATURES, X86_LEVELS
from tvmbuild.errors import TvmbuildError
from tvmbuild.host_cpu import cpu_flags
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.library import call, has_function, load_library, load_runtime
from tvmbuild.specs import Attributes

_EXISTS = 0
"""TVM's number of the attribute."""
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def check_cpu(target: PackageTarget) -> None:
    """Refuse a package whose code this CPU cannot run, as far as its target says.

    Levels of x86-64 and single features are checked; what another ``mcpu`` needs is known to the compiler only.
    """
    attributes = dict(target.attributes if target.kind == "llvm" else target.host)
    triple = str(attributes.get("mtriple", ""))
    here = _MACHINES.get(platform.machine().lower(), platform.machine().lower())
    wanted = _MACHINES.get(triple.partition("-")[0], triple.partition("-")[0])
    if wanted and wanted != here:
        raise TvmbuildError(
            f"the package is built for {wanted} ({target.name}); this machine is {here}",
            "run it on its device, or build for a target of this machine",
        )
    needed = required_features(target.attributes if target.kind == "llvm" else target.host)
    present = cpu_flags() if here == "x86_64" else frozenset()
    missing = sorted(needed - present) if present else []
    if missing:
        raise TvmbuildError(
            f"the package is built for {attributes.get('mcpu', target.name)}; this CPU has no {', '.join(missing)}",
            "build for a target with a lower mcpu",
        )


def required_features(attributes: Attributes) -> frozenset[str]:
    """Return the x86 features that the attributes name, in /proc/cpuinfo's spelling."""
    values = dict(attributes)
    needed = set(X86_LEVELS.get(str(values.get("mcpu", "")), frozenset()))
    mattr = values.get("mattr", ())
    for entry in mattr if isinstance(mattr, tuple) else str(mattr).split(","):
        name = str(entry)
        if name.startswith("+") and name[1:] in X86_FEATURES:
            needed.add(X86_FEATURES[name[1:]])
        elif name.startswith("-"):
            needed.discard(X86_FEATURES.get(name[1:], name[1:]))
    return frozenset(needed)


def find_device(kind: str) -> Any:
    """Return this machine's first device of a target kind; TvmbuildError when there is none, or no runtime for it."""
    if kind == "llvm":
        return tvm_ffi.device("cpu", 0)
    load_backend(kind)
    device = tvm_ffi.device(kind, 0)
    if not call("runtime.GetDeviceAttr", device.dlpack_device_type(), device.index, _EXISTS):
        raise TvmbuildError(f"the package needs a {kind} device, and this machine has none that answers")
    return device


def load_backend(kind: str) -> None:
    """Make sure that the runtime can load and run code of a GPU ``kind``.

    The runtime loads no backend by itself, so its library is loaded here.
    """
    load_runtime()
    loader = f"device_api.{kind}"
    if has_function(loader):
        return
    reason = ""
    try:
        load_library(f"tvm_runtime_{kind}")
    except (OSError, RuntimeError) as error:
        reason = f": {str(error).splitlines()[0]}"
    if not has_function(loader):
        raise TvmbuildError(
            f"the package needs TVM's {kind} runtime, which is not there{reason}",
            f"install the {kind} driver and libraries, and a TVM built with {kind}",
        )
