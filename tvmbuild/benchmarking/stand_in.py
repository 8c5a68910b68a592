"""A check of a package's outputs on this machine's device instead of the target's own device. Nothing is timed."""

from __future__ import annotations

from contextlib import ExitStack

from tvmbuild.base.progress import report_progress
from tvmbuild.benchmarking.contest import Trial, check_numbers
from tvmbuild.benchmarking.frames.contest import check_task
from tvmbuild.benchmarking.validated import Validated
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.devices.model_worker import Load
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.targets.table import target_kind


class CannotRunError(TvmbuildError):
    """The error of a device that cannot load or run the package, for example because it lacks a feature."""


def run_package(trial: Trial) -> Validated:
    """Run the package on this machine's device and check its outputs.

    Raises CannotRunError if the package cannot run here, and TvmbuildError if its outputs are wrong.
    """
    report_progress("loading the package on this machine's device")
    with LOCAL.hold(exclusive=False), ExitStack() as stack:
        try:
            worker = stack.enter_context(LOCAL.start(Load("tvm", trial.package, trial.reference, trial.threads)))
            worker.outputs()  # a driver compiles kernels at their first run, and only then reports missing features
        except TvmbuildError as error:
            raise CannotRunError(error.message, error.hint) from error
        comparison = check_numbers(trial, worker, "validate")
        accuracy = trial.judge(worker.run) if trial.judge else None
        info = read_metadata(trial.package)
        frames = check_task(trial.describe_frames(info, "validate"), worker)
    return Validated(
        comparison.max_abs_error,
        comparison.max_rel_error,
        target_kind(info.target.kind).find_device_class(),
        accuracy=accuracy,
        unjudged=comparison.unjudged,
        frames=None if frames is None else "; ".join((frames.check.describe(), *frames.notes)),
    )
