"""The examination of a package: are its numbers wrong, where do they begin to be, and which option mends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from tvmbuild.base.files import write_bytes
from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import Tolerance
from tvmbuild.debugging.builds import Bench, Build, list_passes
from tvmbuild.debugging.errors import ROUNDINGS, Rounding, compute_places, measure_rounding
from tvmbuild.debugging.finding import REDUCED, Finding, PlaceError, Suspect, TaskFacts, Tried
from tvmbuild.debugging.places import Part, Places
from tvmbuild.debugging.probe import Probe
from tvmbuild.debugging.search import OWN, Origin, Questions, find_origin
from tvmbuild.debugging.variants import Context, Variant, list_variants
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.reference import Reference, write_reference


@dataclass(frozen=True)
class Case:
    """A package, and the numbers that it should compute."""

    cell: str
    model: onnx.ModelProto
    """The model from which the package is built."""
    package: Path | None
    """The package, or None if the build's own is examined."""
    build: Build
    bench: Bench
    reference: Reference
    tolerance: Tolerance


@dataclass(frozen=True)
class Wish:
    """The files that an examination writes."""

    folder: Path
    every: bool = False
    """Whether the errors of all places are measured in a build that returns all of them."""
    reduce: bool = False
    """Whether the smallest model that fails is written to ``folder``."""


def examine(case: Case, wish: Wish) -> Finding:
    """Compare a package with the original, and find the first wrong place if its outputs are wrong.

    Raises TvmbuildError if the original or the package cannot be run.
    """
    report_progress("running the package")
    case, problem = _pose(case)
    places = Places(case.model)
    rounding = _find_rounding(case)
    report_progress("running the original")
    values = compute_places(places, case.reference.inputs, case.cell)
    moved = measure_rounding(places, values, rounding, case.cell)
    probe = Probe(places, values, moved, case.bench, case.build)
    whole = probe.end_after(len(places.nodes))
    if whole is None:
        raise TvmbuildError(f"{case.cell} cannot be built or run again", f"run `doit compile:{case.cell}`")
    asked = Questions(lambda count: probe.rate(probe.end_after(count)), places.list_read, _rate_alone(probe))
    origin = find_origin(asked, len(places.nodes), rounding.limit)
    finding = Finding(
        case.cell,
        len(places.nodes),
        0,
        problem,
        _describe(probe, whole),
        _explain_nothing(probe, whole, rounding) if problem and origin is None else None,
        _Inquiry(case, probe, rounding, origin).report(wish) if origin else None,
    )
    if wish.every:
        finding = replace(finding, places=_measure_all(probe))
    return replace(finding, builds=probe.builds)


def _pose(case: Case) -> tuple[Case, str | None]:
    """Return the case with the inputs for which the package is wrong, and the gate's words about its outputs."""
    specials = case.reference.specials
    problem = _judge(case)
    if problem is not None or specials is None:
        return case, problem
    special = replace(case, reference=specials, tolerance=case.reference.allow(case.tolerance))
    problem = _judge(special)
    return (case, None) if problem is None else (special, problem)


def _judge(case: Case) -> str | None:
    """Return the gate's words about the outputs for the reference's inputs; None if they are right."""
    inputs = case.reference.inputs
    if case.package is not None:
        got = case.bench.run(case.package, inputs)
    else:
        got = case.bench.compute(case.build, bytes(case.model.SerializeToString()), inputs).outputs
    return case.reference.compare(got, case.tolerance).problem


def _find_rounding(case: Case) -> Rounding:
    """Return the rounding of the coarser precision: the original's or the package's."""
    return max((ROUNDINGS[each] for each in (case.reference.precision, case.build.target.precision)), key=_coarseness)


def _coarseness(rounding: Rounding) -> float:
    return rounding.least * rounding.limit


def _describe(probe: Probe, errors: dict[str, float]) -> str:
    """Return the largest error of the outputs in words."""
    worst = max((probe.describe(name, error) for name, error in errors.items()), key=_ratio, default=None)
    if worst is None:
        return "no output can be compared"
    return (
        f"the largest error is {worst.error:.2g} of the largest value of {worst.place}, "
        f"{worst.ratio:.3g} times the effect of rounding"
    )


def _ratio(place: PlaceError) -> float:
    return place.ratio


def _explain_nothing(probe: Probe, whole: dict[str, float], rounding: Rounding) -> str:
    worst = max((probe.rate(whole) or {}).values(), default=0.0)
    if worst > 1.0:
        return (
            f"built again, the package is off by {worst:.3g} times the effect of rounding, and {rounding.limit:g} "
            "times is usual: the tolerance is narrower than the precision, or the package was built by another version"
        )
    return "built again, the package is right: it was built by another version, or the device is not reliable"


def _rate_alone(probe: Probe) -> Callable[[int], float | None]:
    def alone(number: int) -> float | None:
        rates = probe.rate(probe.try_part(probe.extract([number], number), probe.build))
        return None if rates is None else max(rates.values(), default=0.0)

    return alone


def _measure_all(probe: Probe) -> tuple[PlaceError, ...]:
    """Return the errors of all places in one build whose outputs they are; nothing if it cannot be built."""
    names = [name for name in probe.places.producers if name in probe.rounding]
    part = probe.places.extract(range(len(probe.places.nodes)), names, probe.values)
    errors = probe.try_part(part, probe.build) or {}
    return tuple(probe.describe(name, error) for name, error in errors.items())


@dataclass(frozen=True)
class _Inquiry:
    """The questions about a wrong place that was found."""

    case: Case
    probe: Probe
    rounding: Rounding
    origin: Origin

    def report(self, wish: Wish) -> Suspect:
        """Return the facts about the place, and the variants that mend it."""
        probe, last = self.probe, self.origin.last
        report_progress("finding the kernel")
        tasks, fused = probe.list_fused(last)
        part = self._reduce(fused)
        if wish.reduce:
            _write_part(wish.folder, part, probe)
        with list_passes() as passes:
            layout = self.case.build.make(part.model, "part").info.layout
        keys = frozenset(key for key, _ in tasks)
        variants = list(list_variants(Context(self.case.build, keys, layout, tuple(passes))))
        tried = tuple(self._try(variant, part) for variant in variants)
        ends = probe.end_after(last + 1) or {}
        place = max((probe.describe(name, ends[name]) for name in probe.list_outputs(last) if name in ends), key=_ratio)
        build = self.case.build
        return Suspect(
            place,
            tuple(probe.describe(name, error) for name, error in self._list_inputs().items()),
            self.origin.alone,
            tuple(self._name(number) for number in fused if number != last),
            tuple(self._name(number) for number in range(self.origin.first, last)),
            tuple(TaskFacts(key, name, key in build.schedule.traces) for key, name in tasks),
            layout,
            build.target.precision,
            tried,
            self._find_mended(variants, tried),
            len(part.nodes),
        )

    def _name(self, number: int) -> str:
        node = self.probe.places.nodes[number]
        return f"{node.op_type} {node.name or node.output[0]}"

    def _list_inputs(self) -> dict[str, float]:
        """Return the errors of the places that the node reads."""
        before = (self.probe.end_after(self.origin.first) or {}) if self.origin.first else {}
        return {name: before[name] for name in self.probe.places.list_read(self.origin.last) if name in before}

    def _is_wrong(self, ratio: float) -> bool:
        return ratio > max(self.rounding.limit, self.origin.ratio / OWN)

    def _rate(self, part: Part, build: Build) -> float | None:
        rates = self.probe.rate(self.probe.try_part(part, build))
        outputs = self.probe.list_outputs(self.origin.last)
        return None if rates is None else max((rates[name] for name in outputs if name in rates), default=0.0)

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
        ratio = self._rate(part, variant.build)
        return Tried(variant.name, ratio, ratio is not None and ratio <= self.rounding.limit)

    def _find_mended(self, variants: list[Variant], tried: tuple[Tried, ...]) -> str | None:
        """Return the first mending variant with which the whole package passes the gate; None if there is none."""
        for variant, found in zip(variants, tried, strict=True):
            if found.mends:
                report_progress(f"the whole {variant.name}")
                try:
                    if _judge(replace(self.case, package=None, build=variant.build)) is None:
                        return variant.name
                except TvmbuildError:
                    continue
        return None


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
