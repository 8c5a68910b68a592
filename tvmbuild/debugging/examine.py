"""The examination of a package: are its numbers wrong, where do they begin to be, and which option fixes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.progress import report_progress
from tvmbuild.debugging.errors import ROUNDINGS, Rounding, compute_places, measure_rounding
from tvmbuild.debugging.finding import Finding
from tvmbuild.debugging.inquiry import Case, Inquiry, Wish, get_ratio, judge
from tvmbuild.debugging.places import Places, Values
from tvmbuild.debugging.probe import Probe
from tvmbuild.debugging.search import Questions, find_origin
from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import write_package

_OUTDATED = "built again, the package is right: another version built it, or the device is not reliable"


def examine(case: Case, wish: Wish) -> Finding:
    """Compare a package with the original, and find the first wrong place if its outputs are wrong.

    Raises TvmbuildError if the original or the package cannot be run.
    """
    with TemporaryDirectory(prefix="tvmbuild-debug-") as folder:
        again = Path(folder, "again.tar")
        report_progress("building the whole model")
        package = case.build.make(bytes(case.model.SerializeToString()), "again")
        write_package(again, package)
        return _examine(case, wish, again, package.info.layout)


def _examine(case: Case, wish: Wish, again: Path, layout: str) -> Finding:
    """Examine a case whose model was built ``again``, with this ``layout``."""
    report_progress("running the package")
    not_finite, package = case.reference.not_finite, case.package or again
    case, got, problem = _pose(case, package)
    built = got if package == again else case.bench.run(again, case.reference.inputs)
    places = Places(case.model)
    rounding = _find_rounding(case)
    report_progress("running the original")
    values = compute_places(places, case.reference.inputs, case.cell)
    moved = measure_rounding(places, values, rounding, case.cell)
    probe = Probe(places, values, moved, case.bench, case.build, layout)
    given, rebuilt = probe.compare(got), probe.take_whole(built)
    asked = Questions(lambda count: probe.rate(probe.end_after(count)), places.list_read, _rate_alone(probe))
    origin = find_origin(asked, len(places.nodes), rounding.limit)
    is_right = problem is None and _find_worst(probe, given) <= rounding.limit
    closeness = _describe(probe, given)
    finding = Finding(
        cell=case.cell,
        nodes=len(places.nodes),
        builds=0,
        problem=problem,
        closeness=closeness,
        suspect=Inquiry(case, probe, rounding, origin).report(wish) if origin else None,
        is_right=is_right,
        rebuilt=_describe(probe, rebuilt),
        not_finite=not_finite,
    )
    if origin is None and not is_right:
        passes, beyond = judge(case, built) is None, _find_worst(probe, given) > rounding.limit
        narrow = f"the tolerance is narrower than the precision: {finding.rebuilt if beyond else closeness}"
        remarks = [_OUTDATED if passes or beyond else None, None if passes else narrow]
        finding = replace(finding, is_outdated=passes or beyond, remark="; ".join(filter(None, remarks)))
    if is_right and origin is None and case.package is not None:
        finding = _add_frames(finding, case, case.package)
    if wish.every:
        finding = _add_places(finding, probe, rounding)
    return replace(finding, builds=probe.builds)


def _pose(case: Case, package: Path) -> tuple[Case, Values, str | None]:
    """Run the package on the reference's inputs, then on special ones; return case, outputs and the gate's message."""
    got, specials = case.bench.run(package, case.reference.inputs), case.reference.specials
    problem = judge(case, got)
    if problem is not None or specials is None:
        return case, got, problem
    special = replace(case, reference=specials, tolerance=case.reference.allow(case.tolerance))
    found = case.bench.run(package, specials.inputs)
    problem = judge(special, found)
    return (case, got, None) if problem is None else (special, found, problem)


def _find_rounding(case: Case) -> Rounding:
    """Return the rounding of the coarser precision: the original's or the package's."""
    return max((ROUNDINGS[each] for each in (case.reference.precision, case.build.target.precision)), key=_coarseness)


def _coarseness(rounding: Rounding) -> float:
    return rounding.least * rounding.limit


def _describe(probe: Probe, errors: dict[str, float]) -> str:
    """Return the largest error of the outputs in words."""
    worst = max((probe.describe(name, error) for name, error in errors.items()), key=get_ratio, default=None)
    if worst is None:
        return "no output can be compared"
    return (
        f"the largest error is {worst.error:.2g} of the largest value of {worst.place}, "
        f"{worst.ratio:.3g} times rounding"
    )


def _find_worst(probe: Probe, errors: dict[str, float]) -> float:
    """Return the largest error over the one of rounding."""
    return max((probe.describe(name, error).ratio for name, error in errors.items()), default=0.0)


def _add_frames(finding: Finding, case: Case, package: Path) -> Finding:
    """Add the comparison of the package's frames and results to the finding of a right network."""
    report_progress("comparing frames and results")
    try:
        told = case.bench.check_frames(package, case.reference.inputs, case.cell)
    except DeviceLostError:
        raise
    except TvmbuildError as error:
        return replace(finding, frames=f"{error.message}; {error.hint}", frames_are_wrong=True)
    return finding if told is None else replace(finding, frames=f"frames and results are right: {told}")


def _rate_alone(probe: Probe) -> Callable[[int], float | None]:
    def alone(number: int) -> float | None:
        rates = probe.rate(probe.try_part(probe.extract([number], number), probe.build))
        return None if rates is None else max(rates.values(), default=0.0)

    return alone


def _add_places(finding: Finding, probe: Probe, rounding: Rounding) -> Finding:
    """Return the finding with the errors of all places in one build whose outputs they are."""
    names = [name for name in probe.places.producers if name in probe.rounding]
    part = probe.places.extract(range(len(probe.places.nodes)), names, probe.values)
    errors = probe.try_part(part, probe.build) or {}
    places = tuple(probe.describe(name, error) for name, error in errors.items())
    hidden = finding.suspect and errors and max(map(get_ratio, places)) <= rounding.limit
    remark = "a build that returns all places is right: the fault needs operators that are fused" if hidden else None
    return replace(finding, places=places, remark=finding.remark or remark)
