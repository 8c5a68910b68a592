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
    framed = [f"  {finding.frames}"] if finding.frames else []
    lines = [f"{finding.cell}: {_describe_state(finding)}", *_describe_inputs(finding)]
    if finding.suspect is None:
        return [*lines, *framed, *remark]
    lines += _describe_suspect(finding.suspect, request)
    lines += [*_describe_variants(finding.suspect, request, blames=finding.not_finite is None), *remark]
    lines.append(f"  found with {count(finding.builds, 'build')} of {count(finding.nodes, 'node')} or fewer")
    if request.reduce:
        smallest = count(finding.suspect.reduced, "node")
        path = request.folder / REDUCED
        inputs = path.with_suffix(".npz").name
        lines.append(f"  smallest model that fails, {smallest}: {shorten(path)}, with its inputs in {inputs}")
    return lines


def _describe_state(finding: Finding) -> str:
    """Return the first line: is the package wrong, or only a package that this version builds, or neither."""
    if finding.problem is not None:
        return finding.problem
    if not finding.is_right:
        return f"the gate passes, but {finding.closeness}"
    if finding.suspect is not None:
        return f"this package is right, but built again by this version it is wrong: {finding.rebuilt}"
    state = "the network is right" if finding.frames_are_wrong else "nothing is wrong"
    return f"{state}: {finding.closeness}"


def _describe_inputs(finding: Finding) -> Iterator[str]:
    """Yield the remedy if the inputs hold NaN or infinity; the gate's words already name them."""
    if finding.not_finite is not None:
        named = "" if finding.problem else f"{finding.not_finite}; "
        yield f"  {named}give finite inputs, because operators may treat other values unlike ONNX Runtime's"


def _describe_suspect(suspect: Suspect, request: Request) -> Iterator[str]:
    place = suspect.place
    yield f"first wrong place: {place.operator} {place.node}, output {place.place}"
    yield f"  its error: {_describe_error(place)}"
    for each in suspect.inputs:
        yield f"  it reads {each.place} of {each.operator} {each.node}: {_describe_error(each)}"
    if suspect.alone is not None:
        yield f"  alone, with the original's inputs: {suspect.alone:.3g} times rounding"
    if suspect.range:
        yield f"  no model ends between it and the last right place, so it may also be {name_some(suspect.range)}"
    if suspect.fused:
        kernels = len(suspect.tasks)
        shared = f"its {kernels} kernels also compute" if kernels > 1 else "computed in one kernel with"
        yield f"  {shared} {', '.join(suspect.fused)}"
    for task in suspect.tasks:
        yield f"  Task {task.name} ({task.key}): by {_name_origin(task, request)}"
    yield f"  layout {suspect.layout}, precision {suspect.precision}"


def _describe_error(place: PlaceError) -> str:
    return f"{place.error:.2g} of its largest value, {place.ratio:.3g} times rounding"


def _name_origin(task: TaskFacts, request: Request) -> str:
    if task.recorded:
        return f"its record, records/{request.target.name}/{task.key}.json"
    return f"the rule {task.rule}" if task.rule else "rule"


def _describe_variants(suspect: Suspect, request: Request, *, blames: bool) -> Iterator[str]:
    """Yield the variants that fix the numbers, and the others. ``blames``: if none does, the compiler is at fault."""
    fixing = [each.variant for each in suspect.tried if each.fixes]
    if suspect.remedy:
        yield f"fixes it: {suspect.remedy}; the whole package passes with it"
        yield from (f"  {remedy}" for remedy in _list_remedies(suspect, request))
    elif fixing:
        yield "no variant fixes the whole package"
    elif not blames:
        yield "no variant fixes it"
    else:
        yield "no variant fixes it: what all of them share is at fault, such as the import of the operator"
        yield from () if request.reduce else ["  please report it: `--reduce` writes the smallest model that fails"]
    others = [each for each in fixing if each != suspect.remedy]
    if others:
        yield f"  right at this place, too: {', '.join(others)}"
    yield from _list_others(
        "still wrong", [each for each in suspect.tried if not each.fixes and each.ratio is not None]
    )
    yield from _list_others("cannot be built", [each for each in suspect.tried if each.ratio is None])


def _list_remedies(suspect: Suspect, request: Request) -> Iterator[str]:
    """Yield the way to build the package as the variant that fixes it does."""
    records = [f"records/{request.target.name}/{each.key}.json" for each in suspect.tasks if each.recorded]
    remedies = {
        "by rule instead of its record": f"until it is fixed, delete {' and '.join(records)}",
        "by rule instead of all records": "`tvmbuild records verify` finds records that replay wrongly",
        "without Winograd": "to build it so: `tune: {algorithms: [direct]}` of the target",
        IN_FLOAT32_THERE: f"to build it so: `keep: [{', '.join(suspect.nodes)}]` of the model in models.yaml",
        "in float32": "to build it so: `precision: fp32` of the target; `keep: auto` of the model may do",
        "LLVM -O0": "to build it so: `opt-level: 0` of the target, which is slow",
        "on this CPU": "is it the driver? `tvmbuild doctor` tells",
    }
    if suspect.remedy in remedies:
        yield remedies[suspect.remedy]


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
