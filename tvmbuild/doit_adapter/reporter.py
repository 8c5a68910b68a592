"""The output of a run: a line when a step starts and ends, the failures, and the matrix at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TextIO

from doit.exceptions import BaseFail, TaskFailed, UnmetDependency
from doit.globals import Globals
from doit.task import Task

from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep
from tvmbuild.doit_adapter.actions import CACHE
from tvmbuild.doit_adapter.ending import end_run
from tvmbuild.doit_adapter.manner import Manner
from tvmbuild.doit_adapter.state import StepState
from tvmbuild.engine.cache.use import CacheUse
from tvmbuild.engine.executor import HERE, Executor
from tvmbuild.engine.failure import clear_failure, write_failure
from tvmbuild.engine.leftovers import remove_old_leftovers
from tvmbuild.engine.open_inputs import recall_batch
from tvmbuild.engine.project_lock import hold_project_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan


@dataclass
class _Counts:
    done: int = 0
    restored: int = 0
    current: int = 0
    unavailable: int = 0
    failed: list[str] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class MatrixReporter:
    """The reporter for doit that prints the run of one project.

    ``plan`` is set when the tasks are loaded. ``executor``, which runs their steps, and ``manner``, the options of the
    output, may be set before.
    """

    desc = "steps as they start and end, then the matrix"

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.plan: Plan | None = None
        self.executor: Executor = HERE
        self.manner = Manner()
        self._started: dict[str, float] = {}
        self._counts = _Counts()
        self._warned: set[str] = set()
        self._steps: dict[str, AnyStep] = {}
        self._out: TextIO = sys.stdout

    # -- doit calls these methods and defines their names

    def initialize(self, tasks: Mapping[str, Task], selected_tasks: Sequence[str]) -> None:  # noqa: ARG002
        """Prepare the run, before the first task: take the project's lock, and protect the state of tasks.

        doit also removes the state of a task if another task failed. That state is kept unless the task has a recorded
        failure itself.
        """
        sys.excepthook = _show_interrupt
        try:
            hold_project_lock(self.layout.build)
        except TvmbuildError as error:
            raise end_run(error) from error
        remove_old_leftovers()
        self._counts = _Counts()  # a build may run doit twice
        self._steps = {step.id: step for step in (self.plan.steps if self.plan else ())}
        state = Globals.dep_manager.backend
        if isinstance(state, StepState):
            state.keeps = lambda task_id: not self.layout.failure(task_id).exists()

    def get_status(self, task: Task) -> None:
        """Do nothing before doit checks whether the task is up to date."""

    def execute_task(self, task: Task) -> None:
        """Report that a task starts."""
        if task.name in self._steps and task.actions:
            self._started[task.name] = time.monotonic()
            self._print(f".  {task.name}")

    def add_success(self, task: Task) -> None:
        """Report that a task has succeeded."""
        step = self._steps.get(task.name)
        if step is not None and step.unavailable:
            self.skip_uptodate(task)  # doit ran this empty task because its state still lists inputs
        elif step is not None:
            self._counts.done += 1
            use = self._report_cache(task)
            self._counts.restored += use.restored
            self._print(f"ok {task.name}{self._duration(task)}{'  restored from the cache' if use.restored else ''}")
            for note in recall_batch(step):
                self._print(f"   {task.name}  {note}")

    def add_failure(self, task: Task, fail: BaseFail) -> None:
        """Report that a task failed, or could not run."""
        if isinstance(fail, UnmetDependency):
            if task.name in self._steps:
                self._counts.unmet.append(task.name)
                causes = [name for name in fail.message.split() if name in self._counts.failed] or [fail.message]
                self._print(f"-- {task.name}  not run: {', '.join(causes)} failed")
            return
        self._counts.failed.append(task.name)
        self._report_cache(task)
        message = fail.message if isinstance(fail, TaskFailed) else self._explain(task, fail)
        self._print(f"!! {task.name}{self._duration(task)}  {self.manner.reword(message)}")

    def skip_uptodate(self, task: Task) -> None:
        """Count a task that need not run, and remove the failure of an earlier run."""
        step = self._steps.get(task.name)
        if step is None:
            return
        if step.unavailable:
            self._counts.unavailable += 1
        else:
            self._counts.current += 1
        clear_failure(step)

    def skip_ignore(self, task: Task) -> None:
        """Print that doit skips a task that the user has told it to ignore."""
        self._print(f"-- {task.name}  ignored (`doit forget {task.name}` ends that)")

    def teardown_task(self, task: Task) -> None:
        """Do nothing, because the tasks have no teardown."""

    def cleanup_error(self, exception: BaseFail) -> None:
        """Report that doit could not clean up after a task."""
        self._counts.errors.append(exception.get_msg())

    def runtime_error(self, msg: str) -> None:
        """Report that doit itself gave up."""
        self._counts.errors.append(msg)

    def complete_run(self) -> None:
        """End the run, even an interrupted one: write the report, then print the matrix and the summary."""
        for error in self._counts.errors:
            self._print(f"error: {error}")
        if self.plan is not None and (self.manner.places or not self._counts.failed):
            self._report(self.plan)
        self._print(self._summarise())
        page = self.layout.report_html
        if self.manner.places and self._counts.done and page.exists():
            package = self.layout.package("MODEL", "TARGET").relative_to(self.layout.root)
            self._print(f"packages: {package}; report: {page.relative_to(self.layout.root)}")

    # -- ours

    def _report(self, plan: Plan) -> None:
        from tvmbuild.base.console import make_console  # noqa: PLC0415 - only a run pays for it
        from tvmbuild.report.cells import collect_cells  # noqa: PLC0415 - as above
        from tvmbuild.report.terminal import print_matrix  # noqa: PLC0415 - as above
        from tvmbuild.report.write import write_report  # noqa: PLC0415 - as above

        try:
            cells = write_report(plan.root, plan.steps)
        except OSError as error:
            cells = collect_cells(plan.root, plan.steps)
            place = f": {error.filename}" if error.filename else ""
            self._print(f"error: the report could not be written: {error.strerror or error}{place}")
        print_matrix(make_console(self._out), cells, long=self.manner.long)

    def _report_cache(self, task: Task) -> CacheUse:
        """Print the warnings of the step cache, each once a run. Return what the cache did for the task."""
        use: CacheUse = (task.meta or {}).get(CACHE) or CacheUse()
        for warning in use.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                self._print(f"warning: {warning}")
        return use

    def _summarise(self) -> str:
        counts = self._counts
        restored = f" ({counts.restored} restored from the cache)" if counts.restored else ""
        parts = [f"{counts.done} done{restored}", f"{counts.current} up to date"]
        parts += [f"{counts.unavailable} unavailable here"] if counts.unavailable else []
        parts += [f"{len(counts.failed)} failed ({', '.join(counts.failed)})"] if counts.failed else []
        parts += [f"{len(counts.unmet)} not run because of it"] if counts.unmet else []
        return ", ".join(parts)

    def _explain(self, task: Task, fail: BaseFail) -> str:
        """Return the message of doit's own error (a missing file), or of a bug in an action, with its traceback.

        The failure is recorded if the task is a step.
        """
        message = str(fail.get_msg()).strip().removeprefix("ERROR: ")
        step = self._steps.get(task.name)
        if step is not None:
            write_failure(step, TvmbuildError(message), ran=False)
        return message

    def _duration(self, task: Task) -> str:
        started = self._started.pop(task.name, None)
        return "" if started is None else f"  {time.monotonic() - started:.1f} s"

    def _print(self, text: str) -> None:
        print(f"{text}\n", end="", file=self._out, flush=True)  # one write, because threads print at once


def _show_interrupt(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Print one line for Ctrl-C, which is not a bug, instead of doit's traceback."""
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted: nothing half-written is left; the next doit goes on from here", file=sys.stderr)
        return
    sys.__excepthook__(kind, error, at)
