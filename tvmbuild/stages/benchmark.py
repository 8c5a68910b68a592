"""The stage benchmark:M@T: compare the package's outputs with the reference, then time it beside the baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import report_progress
from tvmbuild.base.steps import (
    BenchmarkStep,
    Step,
    find_file_beside,
    find_model,
    find_original,
    list_sample_files,
    list_sizes,
)
from tvmbuild.benchmarking.accuracy import Judge, judge_file_too, make_judge
from tvmbuild.benchmarking.agreement import check_agreement
from tvmbuild.benchmarking.contest import Trial, run_contest
from tvmbuild.benchmarking.emulated import run_emulated
from tvmbuild.benchmarking.history import append_entry, make_entry
from tvmbuild.benchmarking.results import EmulatedResult, Result, SizeResult
from tvmbuild.devices.table import open_device
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.size_functions import show


def run(step: Step[BenchmarkStep]) -> None:
    """Publish result.json and add the result to the history.

    Raises TvmbuildError if the outputs differ from the reference. If the outputs on real inputs are too far from the
    original model's outputs, this publishes both files and then raises VerdictError. An emulated board's result is not
    in the history, because it has no times.
    """
    trial = make_trial(step)
    result = _run_emulated(step, trial) if trial.device.emulated else _run_contests(step, trial)
    if isinstance(result, Result):
        keep_result(step, result)
    write_json(step.output("result"), result.to_json())
    check_agreement(result.accuracy, step.options.accuracy)


def _run_contests(step: Step[BenchmarkStep], trial: Trial) -> Result:
    """Run the contest of the package, and of each of its other sizes."""
    others = []
    for size, each in _list_trials(step, trial):
        report_progress(f"benchmarking {size}")
        found = run_contest(each)
        others.append(SizeResult(size, found.latency, found.rivals, found.max_abs_error, found.max_rel_error))
    return replace(run_contest(trial), sizes=tuple(others))


def _run_emulated(step: Step[BenchmarkStep], trial: Trial) -> EmulatedResult:
    """Check the package on an emulated board, at each of its sizes."""
    results = [run_emulated(each) for _, each in [*_list_trials(step, trial), ("", trial)]]
    absolute, relative = (max(getattr(each, name) for each in results) for name in ("max_abs_error", "max_rel_error"))
    return replace(results[-1], max_abs_error=absolute, max_rel_error=relative)


def _list_trials(step: Step[BenchmarkStep], trial: Trial) -> list[tuple[str, Trial]]:
    """Return the benchmark task of each other size of the package, the smallest first."""
    return [
        (size, trial.at(size, find_model(step, size), step.input(f"reference {size}")))
        for size in list_sizes(step, "reference")
    ]


def make_trial(step: Step[BenchmarkStep]) -> Trial:
    """Return the benchmark task of the step's package. Raises TvmbuildError if packages cannot run on the device."""
    options = step.options
    return Trial(
        subject=step.subject,
        package=step.input("package"),
        model=step.input("model"),
        reference=step.input("reference"),
        threads=options.threads,
        tolerance=options.tolerance,
        options=options.benchmark,
        device=open_device(options.device),
        judge=_make_judge(step),
    )


def make_trial_at(step: Step[BenchmarkStep], values: Mapping[str, int]) -> Trial:
    """Return the benchmark task of one size of the step's package, given as letter → value.

    Raises TvmbuildError, which lists the sizes with a reference, if there is none for this size.
    """
    info = read_metadata(step.input("package"))
    sizes = info.require_sizes()
    size, largest = sizes.plan_size(values, info.model).size, sizes.functions[-1].size
    trial = make_trial(step)
    if size == largest:
        return trial
    trials = dict(_list_trials(step, trial))
    if size.name not in trials:
        raise TvmbuildError(
            f"{step.subject} has no reference for {show(size)}",
            f"name one of {', '.join([*trials, largest.name])}, or time the package by `tvmbuild run --print-time`",
        )
    return trials[size.name]


def _make_judge(step: Step[BenchmarkStep]) -> Judge | None:
    """Return the judge of the accuracy, or None if the model names no samples."""
    accuracy = step.options.accuracy
    if accuracy is None:
        return None
    takes = read_metadata(step.input("package"))
    judge = make_judge(accuracy, takes, find_original(step), list_sample_files(step), step.root)
    return judge_file_too(judge, find_file_beside(step))


def keep_result(step: Step[BenchmarkStep], result: Result) -> None:
    """Add the result, without its operators, to the project's history.

    Raises TvmbuildError if the history cannot be written.
    """
    layout, (model, target) = Layout(step.root), step.subject.split("@", 1)
    used = dict(read_metadata(step.input("package")).digests).get("schedule")
    schedule: Path = layout.cell_file(model, target, "schedule.json")
    try:
        append_entry(layout.history, make_entry(replace(result, operators=()), schedule, used))
    except OSError as error:
        raise TvmbuildError(f"cannot write {layout.history}: {error.strerror}", "make it writable") from error
