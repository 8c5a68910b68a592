"""The report's data, read from the files on disk only.

This module imports nothing slow, because it runs at the end of every doit.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tvmbuild.base.kept_nodes import KeptShare, read_shares
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import Accuracy
from tvmbuild.base.steps import AnyStep, BenchmarkStep, ValidateStep, has_options
from tvmbuild.benchmarking.agreement import Agreement
from tvmbuild.benchmarking.history import Entry, read_history
from tvmbuild.benchmarking.regressions import explain_difference
from tvmbuild.benchmarking.results import EmulatedResult, Result, Rival, read_emulated, read_result
from tvmbuild.benchmarking.validated import Validated
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.memory import Memory, find_memory
from tvmbuild.package.metadata import PackageInfo, PackageTarget
from tvmbuild.package.profile import Peak
from tvmbuild.report.limits import choose_limits
from tvmbuild.report.peaks import GPU_THREADS, Peaks, name_chip, read_peaks
from tvmbuild.report.tuning import UNTUNED, Tuning, collect_tuning
from tvmbuild.stages.table import STAGES

Status = Literal["ok", "built", "failed", "unavailable", "not built"]
HISTORY_LENGTH = 60
"""The largest number of benchmarks of a cell that the report shows."""


@dataclass(frozen=True)
class Failure:
    """The reason for a step's failure, as its process recorded it."""

    step: str
    message: str
    hint: str | None
    log: str | None
    kept: bool
    """True if the step wrote its outputs nevertheless, because it failed only by their contents."""


@dataclass(frozen=True)
class CellReport:
    """The report's data about one cell. ``reason`` explains a status other than `ok`."""

    model: str
    target: str
    status: Status
    reason: str | None = None
    failure: Failure | None = None
    tasks: int | None = None
    covered: int | None = None
    uncovered: tuple[str, ...] = ()
    result: Result | None = None
    """The last benchmark that is still valid."""
    emulated: EmulatedResult | None = None
    """The last valid benchmark on an emulated board, which has no times."""
    history: tuple[Entry, ...] = ()
    """The benchmarks that are comparable with the last one, the newest last."""
    validated: Validated | None = None
    """The comparison of the package's numbers if no device ran it."""
    asked: Accuracy | None = None
    """The accuracy that models.yaml asks for."""
    takes_frames: bool = False
    """True if the package takes frames or makes results."""
    package_bytes: int | None = None
    memory: Memory | None = None
    """The memory that the package takes, beside the runtime's own."""
    built_for: PackageTarget | None = None
    """The target as the package records it."""
    notes: tuple[str, ...] = ()
    kept: tuple[KeptShare, ...] = ()
    """The operators in floats that a search found for the cell's reduced precision."""
    peak: Peak | None = None
    """The peak rates of the machine that timed the cell, if they were measured."""
    tuning: Tuning = UNTUNED
    """The cell's Tasks, with their records and the courses of their best times."""
    quarantined: tuple[str, ...] = ()
    """The reasons why the last tuning left out records of the cell's Tasks."""

    @property
    def name(self) -> str:
        """The cell's name, ``model@target``."""
        return f"{self.model}@{self.target}"

    @property
    def rival(self) -> Rival | None:
        """The first baseline that was measured."""
        return self.result.rivals[0] if self.result and self.result.rivals else None

    @property
    def checked(self) -> Result | EmulatedResult | None:
        """The benchmark, with times or on an emulated board, that compared the package's numbers."""
        return self.result or self.emulated

    @property
    def accuracy(self) -> Agreement | None:
        """The package's agreement with the original model on real inputs, or None if it is not known."""
        known = self.checked or self.validated
        return known.accuracy if known else None


def collect_cells(root: Path, steps: Sequence[AnyStep]) -> list[CellReport]:
    """Return the data of each cell of ``steps``, in their order. Missing or unreadable files count as not built."""
    layout = Layout(root)
    by_id = {step.id: step for step in steps}
    names = dict.fromkeys(step.subject for step in steps if "@" in step.subject)
    entries = _read_entries(layout)
    cells = [_collect_cell(layout, by_id, *name.split("@", 1)) for name in names]
    peaks, limit = read_peaks(layout.peaks), choose_limits(len(names)).tasks
    return [
        replace(
            cell,
            history=_list_comparable(entries.get(cell.name, ())),
            peak=_find_peak(cell, peaks),
            tuning=collect_tuning(layout, cell.model, cell.target, _list_longest(cell), limit),
        )
        for cell in cells
    ]


def _find_peak(cell: CellReport, peaks: Peaks) -> Peak | None:
    """Return the peak of the CPU or GPU that timed the cell, or None if it was not measured."""
    if cell.result is None or cell.built_for is None:
        return None
    threads = GPU_THREADS if cell.built_for.on_gpu else cell.result.threads
    return peaks.get((name_chip(cell.result.machine.name, cell.built_for), threads))


def _list_longest(cell: CellReport) -> list[str]:
    """Return the keys of the cell's Tasks, the longest in the benchmark first. Without known times there are none."""
    return [row.key for row in (cell.result.operators if cell.result else ()) if row.key]


def _read_entries(layout: Layout) -> dict[str, list[Entry]]:
    """Return the entries of the history by the name of their cell. Unreadable entries are left out."""
    try:
        entries = read_history(layout.history).entries
    except OSError:
        return {}
    by_cell: dict[str, list[Entry]] = {}
    for entry in entries:
        by_cell.setdefault(entry.result.cell, []).append(entry)
    return by_cell


def _list_comparable(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if explain_difference(entry, entries[-1]) is None)[-HISTORY_LENGTH:]


def _collect_cell(layout: Layout, steps: Mapping[str, AnyStep], model: str, target: str) -> CellReport:
    cell = f"{model}@{target}"
    ids = _list_ids(steps, model, cell)
    package = layout.package(model, target)
    tune = _read_json(layout.cell_file(model, target, "tune.json"))
    failure = next((f for f in (_read_failure(layout, step_id) for step_id in ids.values()) if f), None)
    # Outputs that a failed step has from an earlier run belong to other inputs.
    info = peek_metadata(package) if failure is None or failure.step in {ids["validate"], ids["benchmark"]} else None
    path = layout.cell_file(model, target, "result.json")
    found = _read_json(path) if info and _is_current(failure, ids["benchmark"]) else {}
    result, emulated = read_result(found), read_emulated(found)
    status, reason = _judge(steps, ids, failure, built=info is not None, measured=bool(result or emulated))
    known = info and _is_current(failure, ids["validate"]) and ids["validate"] in steps
    validated = Validated.from_json(_read_json(layout.cell_file(model, target, "validated.json"))) if known else None
    if status == "built" and validated is not None:
        reason = f"{reason}; {validated.describe()}"
    prepared = ["simplify.json", *(["quantised/quantize.json"] if "quantize" in ids else [])]
    files = [layout.model_file(model, name) for name in prepared]
    files += [layout.cell_file(model, target, "kept.json")] if "keep" in ids else []
    told = [_read_json(path) for path in files]
    prepared_notes = [note for each in told for note in each.get("notes", ())]
    uncovered = tuple(str(task.get("name", "?")) for task in tune.get("uncovered", ()))
    return CellReport(
        model=model,
        target=target,
        status=status,
        reason=reason,
        failure=failure,
        tasks=info.coverage.tasks if info else tune.get("tasks"),
        covered=info.coverage.covered if info else tune.get("covered"),
        uncovered=info.coverage.uncovered if info else uncovered,
        result=result,
        emulated=emulated,
        validated=validated,
        asked=_find_asked(steps, ids),
        takes_frames=info is not None and bool(info.frames or info.postprocess),
        built_for=info.target if info else None,
        package_bytes=package.stat().st_size if info else None,
        kept=tuple(share for each in told for share in read_shares(each)),
        memory=find_memory(info) if info else None,
        notes=(*prepared_notes, *(_list_notes(info) if info else ())),
        quarantined=tuple(f"{row['name']} ({row['key']}): {row['reason']}" for row in tune.get("quarantined", ())),
    )


def _find_asked(steps: Mapping[str, AnyStep], ids: Mapping[str, str]) -> Accuracy | None:
    """Return the `accuracy` options of the cell's benchmark or validate step."""
    for stage in ("benchmark", "validate"):
        step = steps.get(ids[stage])
        if step is not None and (has_options(step, BenchmarkStep) or has_options(step, ValidateStep)):
            return step.options.accuracy
    return None


def _is_current(failure: Failure | None, step: str) -> bool:
    """Return whether the step's outputs belong to the last build.

    They do if nothing failed, or if this step failed only by the contents of its outputs.
    """
    return failure is None or (failure.kept and failure.step == step)


def _list_ids(steps: Mapping[str, AnyStep], model: str, cell: str) -> dict[str, str]:
    """Return stage → id of the cell's step. `quantize` and `keep` are included only if the cell is built with them."""
    ids = {stage.name: f"{stage.name}:{cell if stage.is_of_cells else model}" for stage in STAGES}
    quantize, compile_ = steps.get(ids["quantize"]), steps.get(ids["compile"])
    if quantize is None or compile_ is None or compile_.inputs.get("model") != quantize.outputs.get("model"):
        del ids["quantize"]
    if ids["keep"] not in steps:
        del ids["keep"]
    return ids


def _list_notes(info: PackageInfo) -> tuple[str, ...]:
    reduced = info.target.precision
    return info.notes if reduced == "fp32" else (f"computes in {reduced}", *info.notes)


def _judge(
    steps: Mapping[str, AnyStep], ids: Mapping[str, str], failure: Failure | None, *, built: bool, measured: bool
) -> tuple[Status, str | None]:
    if failure is not None:
        return "failed", f"{failure.step}: {failure.message}"
    reasons = {stage: steps[step_id].unavailable for stage, step_id in ids.items() if step_id in steps}
    for stage in ("simplify", "compile"):
        if reasons.get(stage):
            return "unavailable", reasons[stage]
    if not built:
        return "not built", reasons.get("benchmark")  # cells that cannot be timed here are not searched either
    if measured:
        return "ok", None
    if "benchmark" not in reasons:
        return "built", "not run: it has no device here"
    return "built", reasons["benchmark"] or "not benchmarked yet; `doit` does it"


def _read_failure(layout: Layout, step_id: str) -> Failure | None:
    value = _read_json(layout.failure(step_id))
    if not value:
        return None
    hint, log = value.get("hint"), value.get("log")
    message, kept = str(value.get("message", "no message")), value.get("kept") is True
    return Failure(step_id, message, hint and str(hint), log and str(log), kept)


def _read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in the file, or an empty one for any other file that an interrupted build has left."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def peek_metadata(package: Path) -> PackageInfo | None:
    """Return the contents of mod.json, or None if the package cannot be read.

    It is the archive's first member, so the rest is not read.
    """
    try:
        with tarfile.open(package, "r:") as archive:
            stream = archive.extractfile("mod.json")
            return None if stream is None else PackageInfo.from_json(json.load(stream))
    except (OSError, KeyError, ValueError, tarfile.TarError, TvmbuildError):
        return None
