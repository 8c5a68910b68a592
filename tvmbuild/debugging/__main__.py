"""The program behind `tvmbuild debug`: it examines a cell and prints the finding as one line of JSON.

It is started as ``python -m tvmbuild.debugging REQUEST``, with a pickled `Request`, in its own process, because TVM may
crash on a part of a model.
"""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import onnx

from tvmbuild.base.files import write_json
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.processes import die_with_parent
from tvmbuild.compiler.importing.reading import name_nodes
from tvmbuild.debugging.builds import Bench, Build, make_host_target
from tvmbuild.debugging.examine import examine
from tvmbuild.debugging.finding import PLACES, Request
from tvmbuild.debugging.inquiry import Case, Wish
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.devices.table import open_device
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.inputs import read_arrays
from tvmbuild.preparing.reference import Reference, read_reference, run_onnx
from tvmbuild.records.schedule import NO_RECORDS, Schedule, read_schedule

_IN_PLACE = "the target's device is not here: this CPU computed the model in its place, by rule"


def main(path: str) -> None:
    """Examine the cell of the pickled request, and print the finding, or the error's message and hint."""
    die_with_parent()
    request: Request = pickle.loads(Path(path).read_bytes())  # noqa: S301 - from our own parent
    try:
        finding = examine(_make_case(request), Wish(request.folder, request.every, request.reduce))
        if request.remark is not None:
            finding = replace(finding, remark=finding.remark or request.remark)
        if request.device is None:
            finding = replace(finding, remark=finding.remark or _IN_PLACE)
        if request.every:
            request.folder.mkdir(parents=True, exist_ok=True)
            write_json(request.folder / PLACES, finding.to_json())
        answer: dict[str, object] = {"finding": finding.to_json()}
    except TvmbuildError as error:
        answer = {"problem": error.message, "hint": error.hint}
    print(json.dumps(answer))


def _make_case(request: Request) -> Case:
    model, schedule = onnx.load(request.model), _read_schedule(request.schedule)
    name_nodes(model)  # as the build does, so that a node that stays in float32 has the same name in a part
    reference = _read_reference(request, model)
    if request.device is None:
        target, schedule = (
            make_host_target(request.target.precision, request.target.keep),
            Schedule(layout=schedule.layout, algorithms=schedule.algorithms),
        )
        bench, package = Bench(LOCAL, available_cores()), None
    else:
        target, bench, package = request.target, Bench(open_device(request.device), request.threads), request.package
    build = Build(target, schedule, request.link)
    return Case(request.cell, model, package, build, bench, reference, request.tolerance)


def _read_schedule(path: Path | None) -> Schedule:
    return NO_RECORDS if path is None else read_schedule(path)


def _read_reference(request: Request, model: onnx.ModelProto) -> Reference:
    """Return the cell's reference, or the original's numbers for the inputs of the request."""
    known = read_reference(request.reference)
    if request.inputs is None:
        return known
    inputs = read_arrays(request.inputs)
    wanted = run_onnx(model.SerializeToString(), inputs, request.cell)
    return Reference(inputs, wanted, known.precision, spread=known.spread)


if __name__ == "__main__":
    main(sys.argv[1])
