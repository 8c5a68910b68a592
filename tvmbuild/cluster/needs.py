"""The Dask resources that a step takes of its worker, and those that a worker offers.

This module is pure and imports no Dask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.source_specs import EXTRAS
from tvmbuild.base.steps import (
    AnyStep,
    BenchmarkStep,
    CompileStep,
    QuantizeStep,
    SimplifyStep,
    Step,
    TuneStep,
    ValidateStep,
)
from tvmbuild.cluster.kinds import Amounts, device_resources, target_resources
from tvmbuild.devices.table import DEVICES
from tvmbuild.planning.stages.quantize import NNCF
from tvmbuild.targets.table import TARGETS

STEPS = "tvmbuild"
"""The name of the resource that counts the steps that a worker runs at once."""


def list_needs(step: AnyStep, host_cpu: str) -> Amounts:
    """Return resource → amount that the step takes of a worker.

    Return an empty dict for a step that must run in the user's own environment. `device: local` means a CPU called
    ``measured_on``, or ``host_cpu`` if the target does not state one.
    """
    ask = STAGE_ROWS.get(step.stage)
    needs = {} if ask is None else ask(step, host_cpu)
    return {} if needs is None else {STEPS: 1, **needs}


def list_resources(machine: Capabilities, steps: int, others: Iterable[str] = ()) -> Amounts:
    """Return the resources that a worker on the machine offers, if it runs ``steps`` steps at once.

    ``others`` are further resources, which the machine cannot find out itself.
    """
    found = {STEPS: steps}
    for name in TARGETS:
        kind = target_resources(name)
        found |= kind.list_build_offers(machine, steps) | kind.list_device_offers(machine)
    if machine.version(NNCF) is not None:
        found[NNCF] = steps
    found |= {extra.name: steps for extra in EXTRAS if machine.find_missing(extra) is None}
    for name in DEVICES:
        found |= device_resources(name).list_offers(machine)
    amounts = {"linker": steps, "cpu": machine.cores}
    return {**found, **{name: amounts.get(name.partition(":")[0], 1) for name in others}}


def explain_lack(needs: Mapping[str, int], workers: Iterable[Mapping[str, float]]) -> str | None:
    """Return the names of resources that no worker offers, or None if one worker offers all needs.

    If no worker has all of them but each is offered by some worker, return all names.
    """
    offers = list(workers)
    if any(all(offer.get(name, 0) >= amount for name, amount in needs.items()) for offer in offers):
        return None
    lacking = {name: each for name, each in needs.items() if all(offer.get(name, 0) < each for offer in offers)}
    return ", ".join(name if amount == 1 else f"{name}={amount}" for name, amount in (lacking or needs).items())


def _simplify(step: Step[SimplifyStep], _host_cpu: str) -> Amounts | None:
    """Return the extras of the source, or None for an export, whose imports only the user's environment has."""
    source = step.options.source
    return None if source.kind == "export" else {extra.name: 1 for extra in source.list_extras()}


def _quantize(step: Step[QuantizeStep], _host_cpu: str) -> Amounts:
    """Return the library of the quantisation method, if not every worker has it."""
    return {NNCF: 1} if step.options.quantize.method == NNCF else {}


def _tune(step: Step[TuneStep], host_cpu: str) -> Amounts:
    """Return the resources of a search, or of code generation alone if the step only elects records."""
    searches = step.options.device.is_timed and step.settings.tune != "never"
    needs = target_resources(step.options.kind).list_build_needs(compiles=searches)
    return needs | _list_device_needs(step.options, host_cpu) if searches else needs


def _compile(step: Step[CompileStep], _host_cpu: str) -> Amounts:
    """Return the resources of a build, and the linker that the target names."""
    needs, link = target_resources(step.options.kind).list_build_needs(compiles=True), step.options.link
    return needs if link == "auto" else {**needs, f"linker:{link}": 1}


def _validate(step: Step[ValidateStep], host_cpu: str) -> Amounts:
    """Return the resources of code generation without machine code, and the device that runs the package, if any."""
    kind = target_resources(step.options.kind)
    device = {} if step.options.stand_in is None else kind.list_device_needs(host_cpu, 1)
    return {**kind.list_build_needs(compiles=False), **device}


def _benchmark(step: Step[BenchmarkStep], host_cpu: str) -> Amounts:
    """Return the resources of the target's device."""
    return _list_device_needs(step.options, host_cpu)


def _list_device_needs(options: TuneStep | BenchmarkStep, host_cpu: str) -> Amounts:
    cpu = options.measured_on or host_cpu
    own = target_resources(options.kind).list_device_needs(cpu, options.threads)
    needs: Amounts = device_resources(options.device.kind).list_needs(options.device, own)
    return needs


STAGE_ROWS: Mapping[str, Callable[[Step[Any], str], Amounts | None]] = {
    "simplify": _simplify,
    "quantize": _quantize,
    "keep": lambda _step, _host_cpu: {},  # ONNX Runtime only
    "tune": _tune,
    "compile": _compile,
    "validate": _validate,
    "benchmark": _benchmark,
}
"""Stage → function that returns its needs. A stage that is missing here takes a place (STEPS) and nothing more."""
