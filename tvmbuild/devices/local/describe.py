"""A program that prints TVM's target attributes of this machine's CPU or GPU as JSON.

It is started as `python -m tvmbuild.devices.local.describe llvm`, or `… cuda 0` for the first CUDA device. If there is
no such device, the exit code is 3.
"""

from __future__ import annotations

import json
import sys

import tvm
from tvm.target import codegen

from tvmbuild.base.cpu_features import ASKED_FOR, FEATURES
from tvmbuild.base.host_cpu import cpu_flags, machine_of
from tvmbuild.base.vulkan_driver import ask_driver
from tvmbuild.package.runtime.host import try_backend

ABSENT = 3
"""The exit code if the device does not exist."""

_NAMES = {"device_name", "device_type", "driver_name", "driver_version"}
"""Attributes that are left out, because generated code does not depend on them.

They change with updates of the driver, and a target whose attributes change loses its records.
"""
_PATCH = 0xFFF
"""The bits of a Vulkan version's patch number, left out because generated code does not depend on it."""
_VENDORS = {"conda", "pc", "unknown"}
_VECTOR_FAMILIES = ("amx", "avx", "bmi", "f16c", "fma", "gfni", "vaes", "vpclmul")


def describe_cpu() -> dict[str, object]:
    """Return this CPU's mcpu and mtriple, and a mattr that disables the features which a hypervisor hides.

    Features whose instructions no network needs are not disabled, except vector ones.
    """
    mcpu, triple = str(codegen.llvm_get_system_cpu()), str(codegen.llvm_get_system_triple())
    target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "mtriple": triple})
    features = {str(feature) for feature in codegen.llvm_get_cpu_features(target)}
    hidden = _find_hidden(features, cpu_flags(), machine_of(triple))
    described: dict[str, object] = {"mcpu": mcpu, "mtriple": normalise_triple(triple)}
    return {**described, "mattr": [f"-{feature}" for feature in hidden]} if hidden else described


def describe_gpu(kind: str, index: int) -> dict[str, object] | None:
    """Return the attributes that TVM reads from device ``index`` of the kind, or None if there is no such device.

    The result is None, too, if this TVM has no runtime for the kind.
    """
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
    """Return the triple without its vendor if the vendor is meaningless: x86_64-conda-linux-gnu → x86_64-linux-gnu."""
    parts = triple.split("-")
    return "-".join(part for index, part in enumerate(parts) if index != 1 or len(parts) < 4 or part not in _VENDORS)


def _find_hidden(features: set[str], flags: frozenset[str], machine: str) -> list[str]:
    """Return the features in ``features`` that /proc/cpuinfo's ``flags`` lack, or none if it has no flags."""
    known = FEATURES.get(machine, {})
    if not flags:
        return []
    used = known.keys() - ASKED_FOR
    relevant = (feature for feature in features if feature in used or feature.startswith(_VECTOR_FAMILIES))
    return sorted(name for name in relevant if known.get(name, name.replace("-", "_")) not in flags)


def _to_plain(value: object) -> object:
    if isinstance(value, (bool, int, str)):
        return value
    return [str(item) for item in value] if hasattr(value, "__iter__") else str(value)


def main(arguments: list[str]) -> int:
    """Print the attributes as one line of JSON, the last line of the output, and return the exit code."""
    kind = arguments[0]
    described = describe_cpu() if kind == "llvm" else describe_gpu(kind, int(arguments[1]))
    if described is None:
        return ABSENT
    sys.stdout.write(json.dumps(described) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
