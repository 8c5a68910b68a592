"""The stage benchmark:M@T: compare the package's outputs with the reference, then time it beside the baselines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import BenchmarkStep, Step, find_original, list_sample_files
from tvmbuild.benchmarking.accuracy import Judge, make_judge
from tvmbuild.benchmarking.agreement import check_agreement
from tvmbuild.benchmarking.contest import Trial, run_contest
from tvmbuild.benchmarking.emulated import run_emulated
from tvmbuild.benchmarking.history import append_entry, make_entry
from tvmbuild.benchmarking.results import Result
from tvmbuild.devices.table import open_device
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata


def run(step: Step[BenchmarkStep]) -> None:
    """Publish result.json and add the result to the history.

    Raises TvmbuildError if the outputs differ from the reference. If the outputs on real inputs are too far from the
    original model's outputs, this publishes both files and then raises VerdictError. An emulated board's result is not
    in the history, because it has no times.
    """
    trial = make_trial(step)
    result = run_emulated(trial) if trial.device.emulated else run_contest(trial)
    if isinstance(result, Result):
        keep_result(step, result)
    write_json(step.output("result"), result.to_json())
    check_agreement(result.accuracy, step.options.accuracy)


def make_trial(step: Step[BenchmarkStep]) -> Trial:
    """Return the trial of the step's package. Raises TvmbuildError if packages cannot run on the device."""
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


def _make_judge(step: Step[BenchmarkStep]) -> Judge | None:
    """Return the judge of the accuracy, or None if the model names no samples."""
    accuracy = step.options.accuracy
    if accuracy is None:
        return None
    takes = read_metadata(step.input("package"))
    return make_judge(accuracy, takes, find_original(step), list_sample_files(step), step.root)


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
