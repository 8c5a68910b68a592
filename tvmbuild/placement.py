"""What a step needs of the machine that runs it, and what a machine has, in Dask's words: amounts by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tvmbuild.capabilities import Capabilities
from tvmbuild.frozen_map import FrozenMap
from tvmbuild.specs import QemuDevice, RpcDevice, SshDevice, TargetSpec, is_timed
from tvmbuild.steps import AnyStep, BenchmarkStep, Needs, SimplifyStep, TuneStep, has_options

STEPS = "tvmbuild"
"""Steps at once."""
TIMING = "device:local"
"""What times on the machine itself has it alone."""
CUDA_COMPILER = "nvcc"
"""Or NVRTC."""


def list_needs(step: AnyStep, target: TargetSpec | None, host_cpu: str) -> Needs:
    """Return amounts by name; none for a step that runs in the user's own environment only.

    `device: local` means a CPU called ``measured_on``; where the target does not say, one like this machine's.
    """
    if has_options(step, SimplifyStep) and step.options.source.kind == "export":
        return FrozenMap()
    needs = {STEPS: 1}
    if target is None:
        return FrozenMap(needs)
    if step.stage != "benchmark":
        needs[f"build:{target.kind}"] = 1
    if target.kind == "cuda" and (step.stage == "compile" or _may_search(step)):
        needs[CUDA_COMPILER] = 1
    if step.stage == "compile" and target.link != "auto":
        needs[f"linker:{target.link}"] = 1
    if step.stage == "benchmark" or _may_search(step):
        needs |= _list_device_needs(step, target, target.measured_on or host_cpu)
    return FrozenMap(needs)


def list_resources(machine: Capabilities, steps: int, others: Iterable[str] = ()) -> dict[str, int]:
    """Return what a worker on the machine offers to that many steps at once; ``others`` it cannot find out itself."""
    found = {f"build:{kind}": steps for kind in machine.codegens}
    found |= {CUDA_COMPILER: steps} if machine.nvcc or machine.nvrtc else {}
    found |= {f"device:qemu-{architecture}": 1 for architecture in machine.emulators}
    found |= {kind: 1 for kind in machine.devices if kind != "llvm"}
    own = {STEPS: steps, TIMING: 1, f"cpu:{machine.host_cpu}": machine.cores}
    amounts = {"linker": steps, "cpu": machine.cores}
    return {**own, **found, **{name: amounts.get(name.partition(":")[0], 1) for name in others}}


def explain_lack(needs: Needs, workers: Iterable[Mapping[str, float]]) -> str | None:
    """Return what no worker has; None where one of them has all of it."""
    offers = list(workers)
    if any(all(offer.get(name, 0) >= amount for name, amount in needs.items()) for offer in offers):
        return None
    lacking = {name: each for name, each in needs.items() if all(offer.get(name, 0) < each for offer in offers)}
    return ", ".join(name if amount == 1 else f"{name}={amount}" for name, amount in (lacking or needs).items())


def _may_search(step: AnyStep) -> bool:
    return has_options(step, TuneStep) and is_timed(step.options.device) and step.settings.tune != "never"


def _list_device_needs(step: AnyStep, target: TargetSpec, cpu: str) -> dict[str, int]:
    device = target.device
    if isinstance(device, RpcDevice):
        return {f"device:{device.key}": 1}
    if isinstance(device, SshDevice):
        return {f"device:{device.host}": 1}
    if isinstance(device, QemuDevice):
        return {f"device:qemu-{device.arch}": 1}
    if target.kind != "llvm":
        return {TIMING: 1, target.kind: 1}
    threads = step.options.threads if isinstance(step.options, TuneStep | BenchmarkStep) else 1
    return {TIMING: 1, f"cpu:{cpu}": threads}
