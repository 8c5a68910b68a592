"""The actions of doit's tasks: module functions that take a Step, so that every kind of doit's workers can run them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from doit.exceptions import TaskFailed
from doit.task import Task

from tvmbuild.base.steps import AnyStep
from tvmbuild.doit_adapter.ending import end_run
from tvmbuild.doit_adapter.state import RECORD
from tvmbuild.engine import step_run
from tvmbuild.engine.cache.use import CacheUse
from tvmbuild.engine.executor import Executor
from tvmbuild.engine.failure import write_failure
from tvmbuild.errors import TvmbuildError

CACHE = "cache"
"""The key of the step cache's actions among a task's metadata."""


def run_step(step: AnyStep, executor: Executor, task: Task) -> TaskFailed | None:
    """Run the step; leave in doit's ``task`` the state that its up-to-date check compares next time."""
    use = CacheUse()
    task.meta = {CACHE: use}  # not among the values, which are the state: it is as if the step had run
    end = step_run.run_step(step, executor, use)
    if isinstance(end, TvmbuildError):
        return TaskFailed(str(end))
    # Not returned, because doit would keep it twice, as the task's values and as its result.
    task.values[RECORD] = end.to_json()
    return None


def refuse_step(step: AnyStep) -> TaskFailed:
    """Fail the step, because of `strict=1` and because it cannot run here."""
    error = TvmbuildError(f"unavailable: {step.unavailable}", "strict=1 turns what is unavailable into an error.")
    write_failure(step, error, ran=False)
    return TaskFailed(str(error))


def clean_step(step: AnyStep, dryrun: bool) -> None:
    """Remove the step's outputs. doit passes ``dryrun``."""
    try:
        step_run.clean_step(step, dry_run=dryrun)
    except TvmbuildError as error:
        raise end_run(error) from error


def write_reports(root: Path, steps: Sequence[AnyStep]) -> None:
    """Write the report from the files on disk; a file that would not change is left alone."""
    from tvmbuild.report.write import write_report  # noqa: PLC0415 - only a run pays for it

    write_report(root, steps)
