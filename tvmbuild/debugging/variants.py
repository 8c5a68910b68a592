"""The variants of a build that may fix wrong numbers. Each changes one option."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tvmbuild.base.attributes import ROUNDED
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.debugging.builds import Bench, Build, leave_out, make_host_target
from tvmbuild.debugging.finding import IN_FLOAT32_THERE
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.records.schedule import Schedule


@dataclass(frozen=True)
class Variant:
    """A build with one changed option."""

    name: str
    build: Build
    bench: Bench | None = None
    """The device that runs it, if it is another one."""


@dataclass(frozen=True)
class Context:
    """The facts about the wrong code that decide which variants are tried."""

    build: Build
    keys: frozenset[str]
    """The keys of the Tasks that compute the wrong place."""
    nodes: tuple[str, ...]
    """The names of the nodes computed together with the wrong place's node, which is the last."""
    layout: str
    """The layout of the wrong package."""
    passes: Sequence[str]
    """The names of our passes that changed the module."""


def list_variants(context: Context) -> Iterator[Variant]:
    """Yield the variants that differ from the wrong build, those that change least first."""
    for make in VARIANTS:
        yield from make(context)
    for name in context.passes:
        if name not in _HAS_AN_OPTION:
            yield Variant(f"without the pass {name}", _skip(context.build, name))


def _by_rule(context: Context) -> Iterator[Variant]:
    build, traces = context.build, context.build.schedule.traces
    if context.keys & traces.keys():
        yield Variant("by rule instead of its record", replace(build, schedule=leave_out(build.schedule, context.keys)))
    if traces.keys() - context.keys:
        yield Variant("by rule instead of all records", replace(build, schedule=_without_records(build.schedule)))


def _by_plain_loops(context: Context) -> Iterator[Variant]:
    if not context.build.target.on_gpu:
        build = replace(context.build, schedule=_without_records(context.build.schedule))
        yield Variant("by plain loops instead of records and rules", _skip(build, "ScheduleByRuleOnCpu"))


def _without_winograd(context: Context) -> Iterator[Variant]:
    build = context.build
    if build.schedule.algorithms:
        schedule = replace(build.schedule, algorithms=FrozenMap())
        yield Variant("without Winograd", replace(build, schedule=schedule))


def _without_fusion(context: Context) -> Iterator[Variant]:
    yield Variant("without fusion", replace(context.build, fuses=False))


def _in_nchw(context: Context) -> Iterator[Variant]:
    if context.layout == "NHWC":
        yield Variant("in NCHW", replace(context.build, schedule=replace(context.build.schedule, layout="NCHW")))


def _in_float32_there(context: Context) -> Iterator[Variant]:
    target = context.build.target
    if target.precision in ROUNDED:
        keep = tuple(dict.fromkeys((*target.keep, *context.nodes)))
        yield Variant(IN_FLOAT32_THERE, replace(context.build, target=replace(target, keep=keep)))


def _in_float32(context: Context) -> Iterator[Variant]:
    target = context.build.target
    if target.precision not in {"fp32", "int8"}:
        yield Variant("in float32", replace(context.build, target=replace(target, precision="fp32")))


def _unoptimised(context: Context) -> Iterator[Variant]:
    target = context.build.target
    if not target.on_gpu:
        attributes = FrozenMap(sorted({**target.attributes, "opt-level": 0}.items()))
        yield Variant("LLVM -O0", replace(context.build, target=replace(target, attributes=attributes)))


def _on_this_cpu(context: Context) -> Iterator[Variant]:
    build = context.build
    if build.target.on_gpu:
        chosen = Schedule(layout=build.schedule.layout, algorithms=build.schedule.algorithms)
        host = replace(build, target=make_host_target("fp32"), schedule=chosen)
        yield Variant("on this CPU", host, Bench(LOCAL, available_cores()))


VARIANTS: tuple[Callable[[Context], Iterator[Variant]], ...] = (
    _by_rule,
    _without_winograd,
    _without_fusion,
    _by_plain_loops,
    _in_nchw,
    _in_float32_there,
    _in_float32,
    _unoptimised,
    _on_this_cpu,
)
_HAS_AN_OPTION = frozenset({"ApplyWinograd", "ScheduleByRuleOnCpu", "ScheduleByRule"})
"""The passes that another variant leaves out."""


def _skip(build: Build, name: str) -> Build:
    return replace(build, skipped=build.skipped | {name})


def _without_records(schedule: Schedule) -> Schedule:
    return replace(schedule, traces=FrozenMap(), blocks=FrozenMap())
