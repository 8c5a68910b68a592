"""Asks TVM and the machine what they can do; run as a process by `tvmbuild.capabilities`, prints one JSON line."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, replace

from tvmbuild.capabilities import Capabilities
from tvmbuild.cpu_features import ARM_FEATURES, X86_FEATURES
from tvmbuild.files import canonical_json
from tvmbuild.host_cpu import cpu_flags
from tvmbuild.package.tvm_files import has_vulkan_runtime
from tvmbuild.vulkan import ask_driver

KINDS = ("llvm", "cuda", "vulkan")


def main() -> int:
    """Print the capabilities as JSON on the last line of stdout."""
    sys.stdout.write(canonical_json(asdict(probe())))
    print()
    return 0


def probe() -> Capabilities:
    """Import TVM and ask it; tool versions and linkers are filled in by the caller."""
    import tvm  # noqa: PLC0415 - only this process may pay for it

    def has(name: str) -> bool:
        return tvm.get_global_func(name, allow_missing=True) is not None

    codegens = tuple(kind for kind in KINDS if has(f"target.build.{kind}"))
    vulkan = ask_driver()
    runtimes = tuple(kind for kind in KINDS if kind == "llvm" or has(f"device_api.{kind}"))
    if vulkan.missing == "loader" and has_vulkan_runtime():
        runtimes += ("vulkan",)
    # TVM's Vulkan runtime raises where there is no driver.
    asked = tuple(kind for kind in runtimes if kind != "vulkan" or vulkan.missing is None)
    devices = tuple(kind for kind in asked if kind == "llvm" or tvm.device(kind, 0).exist)
    found = Capabilities(
        codegens=codegens,
        runtimes=runtimes,
        devices=devices,
        vulkan_devices=vulkan.devices,
        vulkan_missing=vulkan.missing,
        nvcc=_nvcc_version(),
        nvrtc=_nvrtc_version(),
        machine=platform.machine(),
    )
    return _ask_llvm(found) if "llvm" in codegens else found


def _ask_llvm(found: Capabilities) -> Capabilities:
    from tvm.target import Target, codegen  # noqa: PLC0415 - as above
    from tvm.target import _ffi_api as target_api  # noqa: PLC0415 - as above

    known = X86_FEATURES if platform.machine() in {"x86_64", "AMD64", "i686"} else ARM_FEATURES
    triple = str(codegen.llvm_get_system_triple())
    host = str(codegen.llvm_get_system_cpu())

    def features(cpu: str) -> frozenset[str]:
        target = Target({"kind": "llvm", "mtriple": triple, "mcpu": cpu})
        return frozenset(codegen.llvm_get_cpu_features(target)) & known.keys()

    # The kernel's word first: a virtual machine can hide instruction sets that LLVM's name of the CPU promises.
    flags = cpu_flags()
    present = frozenset(name for name, flag in known.items() if flag in flags) if flags else features(host)
    names = [str(name) for name in codegen.llvm_get_cpu_archlist(Target({"kind": "llvm", "mtriple": triple}))]
    return replace(
        found,
        llvm=str(target_api.llvm_version_major()),
        host_cpu=host,
        cpu_features=tuple(sorted(present)),
        runnable_cpus=tuple(sorted(name for name in names if features(name) <= present)),
    )


def _nvcc_version() -> str | None:
    command = shutil.which("nvcc")
    if command is None:
        return None
    output = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"release ([\d.]+)", output)
    return match.group(1) if match else None


def _nvrtc_version() -> str | None:
    try:
        from cuda.bindings import nvrtc  # noqa: PLC0415 - slow to import

        status, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):  # RuntimeError: the bindings are there, the library is not
        return None
    return f"{major}.{minor}" if int(status) == 0 else None


if __name__ == "__main__":
    sys.exit(main())
