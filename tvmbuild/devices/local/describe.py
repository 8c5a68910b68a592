"""TVM's description of this machine's CPU or GPU. Run as a program, it prints JSON.

`python -m tvmbuild.devices.local.describe llvm` or `… cuda 0`. Exit code 3 and one line on stderr: no such device.
"""

from __future__ import annotations

import json
import sys

import tvm
from tvm.target import codegen

from tvmbuild.base.cpu_features import X86_FEATURES
from tvmbuild.base.host_cpu import cpu_flags
from tvmbuild.base.vulkan_driver import ask_driver
from tvmbuild.package.runtime.host import try_backend

ABSENT = 3
"""The exit code if the device is absent."""

_NAMES = {"device_name", "device_type", "driver_name", "driver_version"}
"""Attributes that change no code. If they counted, every update of the driver would lose the records."""
_PATCH = 0xFFF
"""The patch bits of a Vulkan version, which do not count for the same reason."""
_VENDORS = {"conda", "pc", "unknown"}
_VECTOR_FAMILIES = ("amx", "avx", "bmi", "f16c", "fma", "gfni", "vaes", "vpclmul")


def describe_cpu() -> dict[str, object]:
    """Return mcpu and mtriple, and in mattr the vector features of that CPU that a virtual machine hides."""
    mcpu, triple = str(codegen.llvm_get_system_cpu()), str(codegen.llvm_get_system_triple())
    target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "mtriple": triple})
    hidden = _find_hidden({str(feature) for feature in codegen.llvm_get_cpu_features(target)}, cpu_flags())
    described: dict[str, object] = {"mcpu": mcpu, "mtriple": normalise_triple(triple)}
    return {**described, "mattr": [f"-{feature}" for feature in hidden]} if hidden else described


def describe_gpu(kind: str, index: int) -> dict[str, object] | None:
    """Return the attributes that TVM reads from the device, or None if this TVM or this machine has no such device."""
    if kind == "vulkan" and ask_driver().missing is not None:
        return None  # TVM's runtime raises without a driver
    try_backend(kind)
    device = tvm.device(kind, index)
    if tvm.get_global_func(f"device_api.{kind}", allow_missing=True) is None or not device.exist:
        return None
    target = tvm.target.Target({"kind": kind, "from_device": index})
    described = {str(key): _to_plain(value) for key, value in target.attrs.items() if str(key) not in _NAMES}
    if kind == "vulkan":
        # TVM's defaults, 256, override the values that it reads.
        described.update(dict.fromkeys(("max_threads_per_block", "max_num_threads"), device.max_threads_per_block))
        described["vulkan_api_version"] = int(target.attrs["vulkan_api_version"]) & ~_PATCH
    return described


def normalise_triple(triple: str) -> str:
    """Return the triple without a meaningless vendor: x86_64-conda-linux-gnu → x86_64-linux-gnu."""
    parts = triple.split("-")
    return "-".join(part for index, part in enumerate(parts) if index != 1 or len(parts) < 4 or part not in _VENDORS)


def _find_hidden(features: set[str], flags: frozenset[str]) -> list[str]:
    """Return LLVM's vector features that the kernel's flags lack. Without flags, return none and trust LLVM."""
    if not flags:
        return []
    vector = (feature for feature in features if feature.startswith(_VECTOR_FAMILIES))
    return sorted(name for name in vector if X86_FEATURES.get(name, name.replace("-", "_")) not in flags)


def _to_plain(value: object) -> object:
    if isinstance(value, (bool, int, str)):
        return value
    return [str(item) for item in value] if hasattr(value, "__iter__") else str(value)


def main(arguments: list[str]) -> int:
    """Print the description as one line of JSON, the last line of the output."""
    kind = arguments[0]
    described = describe_cpu() if kind == "llvm" else describe_gpu(kind, int(arguments[1]))
    if described is None:
        return ABSENT
    sys.stdout.write(json.dumps(described) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
