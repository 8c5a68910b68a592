"""What a step needs of the machine that runs it, and what a machine has, in Dask's words: amounts by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import EXTRAS
from tvmbuild.base.steps import AnyStep, Needs
from tvmbuild.devices.table import DEVICES
from tvmbuild.planning.stages.quantize import NNCF
from tvmbuild.planning.stages.table import stage_planner
from tvmbuild.planning.subject import Subject
from tvmbuild.targets.table import TARGETS

STEPS = "tvmbuild"
"""Steps at once."""


def list_needs(step: AnyStep, subject: Subject, host_cpu: str) -> Needs:
    """Return amounts by name; none for a step that runs in the user's own environment only."""
    needs = stage_planner(step.stage).list_needs(step, subject, host_cpu)
    return FrozenMap() if needs is None else FrozenMap({STEPS: 1, **needs})


def list_resources(machine: Capabilities, steps: int, others: Iterable[str] = ()) -> dict[str, int]:
    """Return what a worker on the machine offers to that many steps at once; ``others`` it cannot find out itself."""
    found = {STEPS: steps}
    for target in TARGETS.values():
        found |= target.list_offers(machine, steps)
    if machine.version(NNCF) is not None:
        found[NNCF] = steps
    found |= {extra.name: steps for extra in EXTRAS if machine.find_missing(extra) is None}
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
