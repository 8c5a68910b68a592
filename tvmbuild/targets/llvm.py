"""The target kind of CPUs: TVM's code generator llvm."""

from __future__ import annotations

import platform
from dataclasses import replace

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.cpu_features import ARM_FEATURES, KNOWN_FEATURES, X86_FEATURES
from tvmbuild.base.finding import Finding
from tvmbuild.base.host_cpu import cpu_flags, machine_of
from tvmbuild.base.specs import TargetSpec
from tvmbuild.base.wording import count
from tvmbuild.targets.fp16_cpus import explain_cpu
from tvmbuild.targets.kind import HasFunction, Problem, TargetKind


class Llvm(TargetKind):
    """The target kind `llvm`. LLVM, which is part of TVM, generates machine code and knows the names of CPUs."""

    name = "llvm"
    on_gpu = False
    always_builds = True
    rules = 8

    def explain_precision(self, precision: str, attributes: Attributes) -> Problem | None:
        """Return the fault of the precision on the CPU and the expected value, or None if the CPU supports it."""
        return explain_cpu(precision, attributes)

    def explain_here(self, cpu: Attributes, capabilities: Capabilities) -> str | None:
        """Return why this machine cannot run the target's code, or None if it can.

        The reason is another machine, too few cores, or missing instruction sets.
        """
        here = machine_of(capabilities.machine)
        there = machine_of(str(cpu.get("mtriple", here)))
        if there != here:
            return f"its code is for {there} and this machine is {here}; say `device: none` to build only"
        cores = cpu.get("num-cores", 1)
        if isinstance(cores, int) and cores > capabilities.cores > 0:
            may = count(capabilities.cores, "core")
            has = f"the target asks for {cores} threads and this process may use {may}"
            return f"{has}; say `num-cores: {capabilities.cores}`, or run it on a machine that has as many"
        lacks, instead = f"this CPU ({capabilities.host_cpu}) lacks", "build here, run on one that has them"
        mcpu = str(cpu.get("mcpu", "generic"))
        if mcpu not in capabilities.runnable_cpus and mcpu != capabilities.host_cpu:
            return f"{lacks} instructions of {mcpu}; {instead}"
        known = (name for name in _list_added(cpu) if name in KNOWN_FEATURES)
        missing = [name for name in known if name not in capabilities.cpu_features]
        return f"{lacks} {', '.join(missing)}; {instead}" if missing else None

    def identify(self) -> dict[str, str] | None:
        """Return an empty map, because no hardware besides the CPU affects latency."""
        return {}

    def find_device_class(self) -> str:
        """Return LLVM's name of this CPU."""
        import tvm  # noqa: PLC0415 - planning asks this module too

        return str(tvm.get_global_func("target.llvm_get_system_cpu")())

    def describe_here(self, target: TargetSpec) -> str:
        """Return the number of threads that the target uses."""
        return count(target.num_cores, "thread")

    def has_runtime(self, _has: HasFunction) -> bool:
        """Return True, because machine code for a CPU needs no other runtime."""
        return True

    def answers(self) -> bool:
        """Return True, because a CPU always answers."""
        return True

    def probe(self, found: Capabilities) -> Capabilities:
        """Return the capabilities with LLVM's version and LLVM's description of this CPU."""
        return _ask_llvm(found) if self.name in found.codegens else found

    def describe(self, attributes: Attributes) -> str:
        """Return the kind and, if the target states it, LLVM's name of the CPU: `llvm znver4`."""
        return f"{self.name} {attributes['mcpu']}" if attributes.get("mcpu") else self.name

    def check(self, capabilities: Capabilities) -> Finding:
        """Return the doctor's finding about LLVM, with LLVM's version."""
        if capabilities.llvm is None:
            remedy = "pip install --force-reinstall apache-tvm"
            return Finding("wrong", "LLVM", "this TVM was built without it", remedy)
        return Finding("ok", "LLVM", f"{capabilities.llvm}: builds for x86-64, aarch64, arm, riscv64 …")


def _list_added(cpu: Attributes) -> list[str]:
    """Return the features that `mattr` adds, without their signs."""
    mattr = cpu.get("mattr", ())
    signed = [str(name) for name in (mattr if isinstance(mattr, tuple) else (mattr,))]
    return [name.removeprefix("+") for name in signed if name.startswith("+")]


def _ask_llvm(found: Capabilities) -> Capabilities:
    from tvm.target import Target, codegen  # noqa: PLC0415 - only the probe's process may pay for it
    from tvm.target import _ffi_api as target_api  # noqa: PLC0415 - as above

    known = X86_FEATURES if platform.machine() in {"x86_64", "AMD64", "i686"} else ARM_FEATURES
    triple = str(codegen.llvm_get_system_triple())
    host = str(codegen.llvm_get_system_cpu())

    def features(cpu: str) -> frozenset[str]:
        target = Target({"kind": "llvm", "mtriple": triple, "mcpu": cpu})
        return frozenset(codegen.llvm_get_cpu_features(target)) & known.keys()

    # The kernel's flags come first: a virtual machine can hide instruction sets that LLVM's name of the CPU implies.
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
