"""A finding of `tvmbuild debug` as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tvmbuild.base.wording import count, name_some
from tvmbuild.debugging.finding import (
    IN_FLOAT32_THERE,
    REDUCED,
    Finding,
    PlaceError,
    Request,
    Suspect,
    TaskFacts,
    Tried,
)

_COLUMNS = ("error", "rounding", "ratio", "operator", "place")


def describe_finding(finding: Finding, request: Request) -> list[str]:
    """Return the finding as lines: the verdict, the wrong place and the variants."""
    remark = [f"  {finding.remark}"] if finding.remark else []
    if finding.suspect is None:
        framed = [] if finding.frames is None else [f"  {finding.frames}"]
        state = "the network is right" if finding.frames_are_wrong else "nothing is wrong"
        right = f"{state}: {finding.closeness}"
        return [f"{finding.cell}: {finding.problem or right}", *framed, *remark]
    first = f"{finding.cell}: {finding.problem or f'the gate passes, but {finding.closeness}'}"
    lines = [first, *_describe_suspect(finding.suspect, request), *remark]
    lines.append(f"  found with {count(finding.builds, 'build')} of {count(finding.nodes, 'node')} or fewer")
    if request.reduce:
        smallest = count(finding.suspect.reduced, "node")
        path = request.folder / REDUCED
        inputs = path.with_suffix(".npz").name
        lines.append(f"  smallest model that fails, {smallest}: {shorten(path)}, with its inputs in {inputs}")
    return lines


def _describe_suspect(suspect: Suspect, request: Request) -> Iterator[str]:
    place = suspect.place
    yield f"first wrong place: {place.operator} {place.node}, output {place.place}"
    yield f"  its error: {_describe_error(place)}"
    for each in suspect.inputs:
        yield f"  it reads {each.place} of {each.operator} {each.node}: {_describe_error(each)}"
    if suspect.alone is not None:
        yield f"  alone, with the original's inputs: {suspect.alone:.3g} times rounding"
    if suspect.range:
        yield f"  no model ends between it and the last right place, so it may be {name_some(suspect.range)} as well"
    if suspect.fused:
        yield f"  computed in one kernel with {', '.join(suspect.fused)}"
    for task in suspect.tasks:
        yield f"  Task {task.name} ({task.key}): by {_name_origin(task, request)}"
    yield f"  layout {suspect.layout}, precision {suspect.precision}"
    yield from _describe_variants(suspect, request)


def _describe_error(place: PlaceError) -> str:
    return f"{place.error:.2g} of its largest value, {place.ratio:.3g} times rounding"


def _name_origin(task: TaskFacts, request: Request) -> str:
    if task.recorded:
        return f"its record, records/{request.target.name}/{task.key}.json"
    return f"the rule {task.rule}" if task.rule else "rule"


def _describe_variants(suspect: Suspect, request: Request) -> Iterator[str]:
    mending = [each.variant for each in suspect.tried if each.mends]
    if suspect.mended:
        yield f"mends it: {suspect.mended}; the whole package passes with it"
        yield from (f"  {remedy}" for remedy in _list_remedies(suspect, request))
    elif mending:
        yield "no variant mends the whole package"
    else:
        yield "no variant mends it: what all of them share is at fault, such as the import of the operator"
        yield from () if request.reduce else ["  please report it: `--reduce` writes the smallest model that fails"]
    others = [each for each in mending if each != suspect.mended]
    if others:
        yield f"  right at this place, too: {', '.join(others)}"
    yield from _list_others(
        "still wrong", [each for each in suspect.tried if not each.mends and each.ratio is not None]
    )
    yield from _list_others("cannot be built", [each for each in suspect.tried if each.ratio is None])


def _list_remedies(suspect: Suspect, request: Request) -> Iterator[str]:
    """Yield the way to build the package as the mending variant does."""
    records = [f"records/{request.target.name}/{each.key}.json" for each in suspect.tasks if each.recorded]
    remedies = {
        "by rule instead of its record": f"until it is mended, delete {' and '.join(records)}",
        "by rule instead of all records": "`tvmbuild records verify` finds records that replay wrongly",
        "without Winograd": "to build it so: `tune: {algorithms: [direct]}` of the target",
        IN_FLOAT32_THERE: f"to build it so: `keep: [{', '.join(suspect.nodes)}]` of the model in models.yaml",
        "in float32": "to build it so: `precision: fp32` of the target; `keep: auto` of the model may do",
        "LLVM -O0": "to build it so: `opt-level: 0` of the target, which is slow",
        "on this CPU": "is it the driver? `tvmbuild doctor` tells",
    }
    if suspect.mended in remedies:
        yield remedies[suspect.mended]


def _list_others(state: str, tried: Sequence[Tried]) -> Iterator[str]:
    if tried:
        yield f"  {state}: {', '.join(each.variant for each in tried)}"


def list_places(places: Sequence[PlaceError]) -> Iterator[str]:
    """Yield a table of all places in the order of the model."""
    if places:
        yield " ".join(f"{name:>9}" for name in _COLUMNS[:3]) + "  operator, place"
    for each in places:
        yield f"{each.error:9.2g} {each.rounding:9.2g} {each.ratio:9.3g}  {each.operator} {each.place}"


def shorten(path: Path) -> str:
    """Return the path relative to the working folder, if the file is in it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
