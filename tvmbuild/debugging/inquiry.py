"""The questions about a wrong place that was found: its kernel, the smallest model that fails, and what fixes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from tvmbuild.base.files import write_bytes
from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import Tolerance
from tvmbuild.debugging.builds import Bench, Build, list_passes
from tvmbuild.debugging.errors import Rounding
from tvmbuild.debugging.finding import REDUCED, PlaceError, Suspect, TaskFacts, Tried
from tvmbuild.debugging.places import Part, Values
from tvmbuild.debugging.probe import Probe
from tvmbuild.debugging.search import OWN, Origin
from tvmbuild.debugging.variants import Context, Variant, list_variants
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.reference import Reference, write_reference
from tvmbuild.records.schedule import Schedule


@dataclass(frozen=True)
class Case:
    """A package, and the numbers that it should compute."""

    cell: str
    model: onnx.ModelProto
    """The model from which the package is built."""
    package: Path | None
    """The package, or None if the one that ``build`` makes of the model is examined."""
    build: Build
    bench: Bench
    reference: Reference
    tolerance: Tolerance


@dataclass(frozen=True)
class Wish:
    """The files that an examination writes."""

    folder: Path
    every: bool = False
    """True if the errors of all places are measured in a build that returns all of them."""
    reduce: bool = False
    """True if the smallest model that fails is written to ``folder``."""


def judge(case: Case, got: Values) -> str | None:
    """Return the gate's words about outputs for the reference's inputs; None if they are right."""
    return case.reference.compare(got, case.tolerance).problem


def get_ratio(place: PlaceError) -> float:
    """Return the error of a place over the one of rounding."""
    return place.ratio


@dataclass(frozen=True)
class Inquiry:
    """A wrong place, and the means to ask about it."""

    case: Case
    probe: Probe
    rounding: Rounding
    origin: Origin

    def report(self, wish: Wish) -> Suspect:
        """Return the facts about the place, and the variants that fix it."""
        probe, last = self.probe, self.origin.last
        report_progress("finding the kernel")
        tasks, fused = probe.list_fused(last)
        rules = probe.name_rules(last)
        part = self._reduce(fused)
        if wish.reduce:
            _write_part(wish.folder, part, probe)
        with list_passes() as passes:
            layout = self.case.build.make(part.model, "part").info.layout
        keys, nodes = frozenset(key for key, _ in tasks), self._list_nodes(fused)
        variants = list(list_variants(Context(self.case.build, keys, nodes, layout, tuple(passes))))
        tried = tuple(self._try(variant, part) for variant in variants)
        build = self.case.build
        return Suspect(
            place=max(self._list_wrong(), key=get_ratio),
            nodes=nodes,
            inputs=tuple(probe.describe(name, error) for name, error in self._list_inputs().items()),
            alone=self.origin.alone,
            fused=tuple(self._name(number) for number in fused if number != last),
            range=tuple(self._name(number) for number in range(self.origin.first, last)),
            tasks=tuple(_describe_task(key, name, build.schedule, rules) for key, name in tasks),
            layout=probe.layout,
            precision=build.target.precision,
            tried=tried,
            remedy=self._find_remedy(variants, tried),
            reduced=len(part.nodes),
        )

    def _name(self, number: int) -> str:
        node = self.probe.places.nodes[number]
        return f"{node.op_type} {node.name or node.output[0]}"

    def _list_nodes(self, fused: list[int]) -> tuple[str, ...]:
        """Return the names of the nodes between the last right place and the wrong one, and of those of its kernel."""
        numbers = sorted({*fused, *range(self.origin.first, self.origin.last + 1)})
        return tuple(self.probe.places.nodes[number].name for number in numbers)

    def _list_wrong(self) -> list[PlaceError]:
        """Return the node's own places, or all ends if those are right: a node may make what runs beside it wrong."""
        errors = self.probe.end_after(self.origin.last + 1) or {}
        ends = [self.probe.describe(name, error) for name, error in errors.items()]
        own = [each for each in ends if self.probe.places.producers[each.place] == self.origin.last]
        return own if any(self._is_wrong(each.ratio) for each in own) else ends

    def _list_inputs(self) -> dict[str, float]:
        """Return the errors of the places that the node reads."""
        before = (self.probe.end_after(self.origin.first) or {}) if self.origin.first else {}
        return {name: before[name] for name in self.probe.places.list_read(self.origin.last) if name in before}

    def _is_wrong(self, ratio: float) -> bool:
        return ratio > max(self.rounding.limit, self.origin.ratio / OWN)

    def _rate(self, part: Part, build: Build, bench: Bench | None = None) -> float | None:
        rates = self.probe.rate(self.probe.try_part(part, build, bench))
        watched = {each.place for each in self._list_wrong()}
        return None if rates is None else max((rates[name] for name in rates.keys() & watched), default=0.0)

    def _reduce(self, fused: list[int]) -> Part:
        """Return the smallest part that ends with the wrong node and is wrong with the original's inputs."""
        last, whole = self.origin.last, self.probe.cut(self.origin.last + 1)
        candidates = [[last], fused, *(list(range(last - count, last + 1)) for count in _list_lengths(last))]
        for nodes in candidates:
            part = self.probe.extract(nodes, last)
            ratio = self._rate(part, self.case.build)
            if ratio is not None and self._is_wrong(ratio):
                return part
        return whole

    def _try(self, variant: Variant, part: Part) -> Tried:
        """Return the variant with its error at the wrong place."""
        report_progress(variant.name)
        ratio = self._rate(part, variant.build, variant.bench)
        return Tried(variant.name, ratio, ratio is not None and ratio <= self.rounding.limit)

    def _find_remedy(self, variants: list[Variant], tried: tuple[Tried, ...]) -> str | None:
        """Return the first fixing variant with which the whole package passes the gate; None if there is none."""
        for variant, found in zip(variants, tried, strict=True):
            if found.fixes:
                report_progress(f"the whole {variant.name}")
                bench, model = variant.bench or self.case.bench, bytes(self.case.model.SerializeToString())
                try:
                    if judge(self.case, bench.compute(variant.build, model, self.case.reference.inputs)) is None:
                        return variant.name
                except TvmbuildError:
                    continue
        return None


def _describe_task(key: str, name: str, schedule: Schedule, rules: Mapping[str, str]) -> TaskFacts:
    recorded = key in schedule.traces
    return TaskFacts(key, name, recorded, "" if recorded else rules.get(key, ""))


def _list_lengths(last: int) -> Iterator[int]:
    length = 1
    while length < last:
        yield length
        length *= 2


def _write_part(folder: Path, part: Part, probe: Probe) -> None:
    """Write a model, and its inputs and right outputs as a reference."""
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / REDUCED, part.model)
    inputs = {name: probe.values[name] for name in part.inputs}
    outputs = {name: probe.values[name] for name in part.outputs}
    write_reference(folder / Path(REDUCED).with_suffix(".npz"), Reference(inputs, outputs))
