"""Whether this machine's CPU and TVM runtime can run a package, told before anything crashes."""

from __future__ import annotations

import platform

import tvm_ffi
from tvm import libinfo
from tvm_ffi.libinfo import load_lib_ctypes

from tvmbuild.cpu_features import X86_FEATURES, X86_LEVELS
from tvmbuild.errors import TvmbuildError
from tvmbuild.host_cpu import cpu_flags
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.specs import Attributes

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


def load_backend(kind: str) -> None:
    """Make sure that the runtime can load and run code of a GPU ``kind``.

    A runtime-only TVM loads no backend at import, so its library is loaded here.
    """
    loader = f"device_api.{kind}"
    if tvm_ffi.get_global_func(loader, allow_missing=True) is not None:
        return
    reason = ""
    try:
        load_lib_ctypes("tvm", f"tvm_runtime_{kind}", "RTLD_GLOBAL", extra_lib_paths=libinfo.package_lib_paths())
    except (OSError, RuntimeError) as error:
        reason = f": {str(error).splitlines()[0]}"
    if tvm_ffi.get_global_func(loader, allow_missing=True) is None:
        raise TvmbuildError(
            f"the package needs TVM's {kind} runtime, which is not there{reason}",
            f"install the {kind} driver and libraries, and a TVM built with {kind}",
        )
