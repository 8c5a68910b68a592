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
"""The key of a task's metadata under which the step cache's action is stored."""


def run_step(step: AnyStep, executor: Executor, task: Task) -> TaskFailed | None:
    """Run the step, and leave in doit's ``task`` the state that the next up-to-date check compares.

    Return TaskFailed if the step failed, otherwise None.
    """
    use = CacheUse()
    task.meta = {CACHE: use}  # not in task.values: they are the state, which must not depend on the cache
    end = step_run.run_step(step, executor, use)
    if isinstance(end, TvmbuildError):
        return TaskFailed(str(end))
    # The state is not returned, because doit would store it twice, as the task's values and as its result.
    task.values[RECORD] = end.to_json()
    return None


def refuse_step(step: AnyStep) -> TaskFailed:
    """Return the failure of a step that cannot run here, which `strict=1` makes an error. The failure is recorded."""
    error = TvmbuildError(f"unavailable: {step.unavailable}", "strict=1 turns what is unavailable into an error.")
    write_failure(step, error, ran=False)
    return TaskFailed(str(error))


def clean_step(step: AnyStep, dryrun: bool) -> None:
    """Remove the step's outputs, or only print them if ``dryrun``, an argument that doit passes."""
    try:
        step_run.clean_step(step, dry_run=dryrun)
    except TvmbuildError as error:
        raise end_run(error) from error


def write_reports(root: Path, steps: Sequence[AnyStep]) -> None:
    """Write the report from the files on disk. A file that would not change is not written."""
    from tvmbuild.report.write import write_report  # noqa: PLC0415 - only a run pays for it

    write_report(root, steps)
