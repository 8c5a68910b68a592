"""The TVM target for the attributes in `targets.yaml`, and the properties of a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm.target import codegen

from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.cpu_features import ASKED_FOR, FEATURES, UNLISTED
from tvmbuild.base.cuda_versions import Version, choose_driver, read_version, show_version
from tvmbuild.base.did_you_mean import find_nearest
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import machine_of
from tvmbuild.errors import TvmbuildError

GPU_KINDS = frozenset({"cuda", "vulkan"})
_DRIVER_KEY, _PTX_KEY = "driver-", "ptx"
"""The keys of a TVM target that stand for tvmbuild's attributes `driver` and `ptx`."""

_FIRST_WITH_ASYNC_COPIES, _FIRST_WITH_DOT, _FIRST_WITH_DEPENDENTS = 80, 61, 90
"""The first architecture with each feature, as a number: 80 is `sm_80`."""
_FIRST_WITH_TYPE = {"float16": 70, "bfloat16": 80, "float32": 80}
"""The first architecture whose tensor cores multiply the type; of a float32 they use 10 bits of the mantissa (TF32)."""


def tvm_target(kind: str, attributes: Attributes, host: Attributes) -> tvm.target.Target:
    """Return the TVM target; GPU kinds get an llvm host with the attributes ``host``.

    TVM 0.27 takes targets only as dictionaries. Raises TvmbuildError if TVM refuses an attribute, or if LLVM does not
    know the CPU.
    """
    fields = _fields(kind, attributes)
    if kind in GPU_KINDS:
        fields["host"] = _fields("llvm", host)
    try:
        target = tvm.target.Target(fields)
    except (ValueError, TypeError, KeyError, tvm.error.InternalError) as error:
        raise TvmbuildError(
            f"TVM refuses the target {fields}: {_last_line(error)}", "check the target's attributes in targets.yaml"
        ) from error
    _check_cpu(target.host if kind in GPU_KINDS else target)
    return target


def list_flags(cpu: tvm.target.Target) -> tuple[str, ...] | None:
    """Return the instruction sets of the code for a CPU, by the kernel's names. None: they are not known."""
    machine = machine_of(str(cpu.attrs.get("mtriple", "")) or str(codegen.llvm_get_system_triple()))
    known = FEATURES.get(machine)
    if known is None:
        return None
    has = {str(name) for name in codegen.llvm_get_cpu_features(cpu)}
    return tuple(sorted(known[name] for name in has & known.keys() - ASKED_FOR - UNLISTED))


def host_target(cpu: str | None = None, threads: int = 1) -> tvm.target.Target:
    """Return the target of this machine's CPU, or of the CPU that LLVM calls ``cpu``."""
    attributes: dict[str, AttributeValue] = {"mcpu": cpu or str(codegen.llvm_get_system_cpu()), "num-cores": threads}
    return tvm_target("llvm", FrozenMap(attributes), FrozenMap())


def _check_cpu(target: tvm.target.Target) -> None:
    """Raise TvmbuildError for a CPU or feature that LLVM does not know; LLVM would warn and build for a generic CPU."""
    attributes = dict(target.attrs)
    cpu, triple = str(attributes.get("mcpu", "")), str(attributes.get("mtriple", "this machine"))
    known = [str(name) for name in codegen.llvm_get_cpu_archlist(target)]
    if cpu and cpu not in known:
        near = find_nearest(cpu, known)
        hint = f"did you mean {near}?" if near else "`clang --print-supported-cpus` lists LLVM's names"
        raise TvmbuildError(f"LLVM knows no CPU {cpu} for {triple}", f"{hint} (`mcpu` in targets.yaml)")
    has = {str(name) for name in codegen.llvm_get_cpu_features(target)}
    for feature in (str(each) for each in attributes.get("mattr", ())):
        if feature.startswith("+") and feature[1:] not in has:
            raise TvmbuildError(f"LLVM knows no feature {feature} for {triple}", "correct `mattr` in targets.yaml")


@dataclass(frozen=True)
class CudaCode:
    """The machine code that a CUDA target asks for."""

    arch: str
    driver: Version
    """The oldest driver that must load it."""
    with_ptx: bool
    """True if PTX for later cards is wanted, too."""


def cuda_code(target: tvm.target.Target) -> CudaCode:
    """Return the machine code that a CUDA target asks for."""
    arch, keys = str(target.attrs["arch"]), [str(key) for key in target.keys]
    stated = next((key.removeprefix(_DRIVER_KEY) for key in keys if key.startswith(_DRIVER_KEY)), None)
    driver = choose_driver({"arch": arch}) if stated is None else read_version(stated)
    return CudaCode(arch, driver, _PTX_KEY in keys)


def tensor_core_types(target: tvm.target.Target, *, tf32: bool) -> set[str]:
    """Return the types that the target's tensor cores multiply; float32 only if the model allows ``tf32``."""
    known = {dtype for dtype, least in _FIRST_WITH_TYPE.items() if _cuda_generation(target) >= least}
    return known if tf32 else known - {"float32"}


def copies_asynchronously(target: tvm.target.Target) -> bool:
    """Return whether the target is a card that copies to shared memory while its threads compute (`cp.async`)."""
    return _cuda_generation(target) >= _FIRST_WITH_ASYNC_COPIES


def launches_dependents(target: tvm.target.Target) -> bool:
    """Return whether the target is a card that launches a kernel while the kernel before it ends."""
    return _cuda_generation(target) >= _FIRST_WITH_DEPENDENTS


def multiplies_bytes(target: tvm.target.Target) -> bool:
    """Return whether the target is a GPU that adds up the products of four bytes in one instruction."""
    is_told = target.kind.name == "vulkan" and bool(dict(target.attrs).get("supports_integer_dot_product", False))
    return is_told or _cuda_generation(target) >= _FIRST_WITH_DOT


def _cuda_generation(target: tvm.target.Target) -> int:
    """Return the number of the target's CUDA architecture, 90 for `sm_90`, or 0 if the target is not an NVIDIA card."""
    number = str(dict(target.attrs).get("arch", "")).removeprefix("sm_").rstrip("af")
    return int(number) if str(target.kind.name) == "cuda" and number.isdigit() else 0


def is_gpu(target: tvm.target.Target) -> bool:
    """Return whether kernels of this target run on a GPU."""
    return str(target.kind.name) in GPU_KINDS


def _fields(kind: str, attributes: Attributes) -> dict[str, Any]:
    plain: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in attributes.items()
        if kind != "cuda" or name not in {"driver", "ptx"}
    }
    if len(plain) < len(attributes):
        # TVM refuses attributes that it does not know, but takes any key, and keys also reach the tuner's processes.
        stated = [f"{_DRIVER_KEY}{show_version(choose_driver(attributes))}", _PTX_KEY]
        plain["keys"] = [*plain.get("keys", ["cuda", "gpu"]), *(stated if attributes.get("ptx") else stated[:1])]
    return {"kind": kind, **plain}


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
