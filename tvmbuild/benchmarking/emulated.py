"""A check of a package's outputs on an emulated board. Nothing is timed."""

from __future__ import annotations

from tvmbuild.base.progress import report_progress
from tvmbuild.benchmarking.contest import Trial, check_numbers, describe_product
from tvmbuild.benchmarking.frames.contest import check_task, describe_untimed
from tvmbuild.benchmarking.results import EmulatedResult
from tvmbuild.devices.model_worker import Load
from tvmbuild.package.archive import read_metadata


def run_emulated(trial: Trial) -> EmulatedResult:
    """Check the package's outputs on an emulated board. Raises TvmbuildError if they are wrong or it cannot run."""
    device, info = trial.device, read_metadata(trial.package)
    load = Load("tvm", trial.package, trial.reference, trial.threads)
    report_progress("loading the package, emulated")
    with device.hold(exclusive=False), device.start(load) as worker:
        comparison = check_numbers(trial, worker)
        agreement = trial.judge(worker.run) if trial.judge else None
        checked = check_task(trial.describe_frames(info), worker)
        machine = device.watch((worker,)).read()
    return EmulatedResult(
        cell=trial.subject,
        product=describe_product(trial.package, info),
        threads=worker.threads,
        machine=machine,
        max_abs_error=comparison.max_abs_error,
        max_rel_error=comparison.max_rel_error,
        accuracy=agreement,
        frames=None if checked is None else describe_untimed(info, checked),
    )
