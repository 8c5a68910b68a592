"""Whether this machine's CPU and TVM runtime can run a package, told before anything crashes."""

from __future__ import annotations

import platform
from pathlib import Path

import tvm_ffi
from tvm import libinfo
from tvm_ffi.libinfo import load_lib_ctypes

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.specs import Attributes

_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""The psABI levels in /proc/cpuinfo's spelling (abm is lzcnt)."""
_LLVM_SPELLINGS = {"sse4.1": "sse4_1", "sse4.2": "sse4_2", "lzcnt": "abm", "bmi": "bmi1"}
_KNOWN = _V4 | {"avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8"}
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
    present = cpu_flags()
    missing = sorted(needed - present) if present else []
    if missing:
        raise TvmbuildError(
            f"the package is built for {attributes.get('mcpu', target.name)}; this CPU has no {', '.join(missing)}",
            "build for a target with a lower mcpu",
        )


def required_features(attributes: Attributes) -> frozenset[str]:
    """Return the x86 features that the attributes name, in /proc/cpuinfo's spelling."""
    values = dict(attributes)
    needed = set(LEVELS.get(str(values.get("mcpu", "")), frozenset()))
    mattr = values.get("mattr", ())
    for entry in mattr if isinstance(mattr, tuple) else str(mattr).split(","):
        name = str(entry)
        spelled = _LLVM_SPELLINGS.get(name[1:], name[1:])
        if name.startswith("+"):
            needed |= {spelled} & _KNOWN
        elif name.startswith("-"):
            needed -= {spelled}
    return frozenset(needed)


def cpu_flags() -> frozenset[str]:
    """Return the flags of /proc/cpuinfo; empty where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return frozenset(flags)


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
