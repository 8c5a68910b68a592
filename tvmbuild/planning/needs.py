"""What a step needs of the machine that runs it, and what a machine has, in Dask's words: amounts by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import TargetSpec
from tvmbuild.base.steps import AnyStep, BenchmarkStep, Needs, SimplifyStep, TuneStep, has_options
from tvmbuild.devices.table import DEVICES, device_kind
from tvmbuild.targets.table import TARGETS, target_kind

STEPS = "tvmbuild"
"""Steps at once."""


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
        needs |= target_kind(target.kind).list_build_needs(compiles=step.stage == "compile" or _may_search(step))
    if step.stage == "compile" and target.link != "auto":
        needs[f"linker:{target.link}"] = 1
    if step.stage == "benchmark" or _may_search(step):
        needs |= _list_device_needs(step, target, target.measured_on or host_cpu)
    return FrozenMap(needs)


def list_resources(machine: Capabilities, steps: int, others: Iterable[str] = ()) -> dict[str, int]:
    """Return what a worker on the machine offers to that many steps at once; ``others`` it cannot find out itself."""
    found = {STEPS: steps}
    for target in TARGETS.values():
        found |= target.list_offers(machine, steps)
    for device in DEVICES.values():
        found |= device.list_offers(machine)
    amounts = {"linker": steps, "cpu": machine.cores}
    return {**found, **{name: amounts.get(name.partition(":")[0], 1) for name in others}}


def explain_lack(needs: Needs, workers: Iterable[Mapping[str, float]]) -> str | None:
    """Return what no worker has; None where one of them has all of it."""
    offers = list(workers)
    if any(all(offer.get(name, 0) >= amount for name, amount in needs.items()) for offer in offers):
        return None
    lacking = {name: each for name, each in needs.items() if all(offer.get(name, 0) < each for offer in offers)}
    return ", ".join(name if amount == 1 else f"{name}={amount}" for name, amount in (lacking or needs).items())


def _may_search(step: AnyStep) -> bool:
    return has_options(step, TuneStep) and step.options.device.is_timed and step.settings.tune != "never"


def _list_device_needs(step: AnyStep, target: TargetSpec, cpu: str) -> dict[str, int]:
    threads = step.options.threads if isinstance(step.options, TuneStep | BenchmarkStep) else 1
    return device_kind(target.device).list_needs(target.device, target.kind, cpu, threads)
