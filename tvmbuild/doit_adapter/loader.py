"""What `dodo.py` calls: the project beside it, as doit's settings and tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tvmbuild.base.layout import Layout
from tvmbuild.doit_adapter.doit_tasks import TaskDict, list_tasks
from tvmbuild.doit_adapter.ending import end_run
from tvmbuild.doit_adapter.reporter import MatrixReporter
from tvmbuild.doit_adapter.variables import read_settings
from tvmbuild.engine.executor import HERE, Executor
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import load_plan
from tvmbuild.stages.table import STAGES


class DoitFile(NamedTuple):
    """What doit looks for in a dodo.py: `DOIT_CONFIG` and a function, or a method, called `task_…`."""

    config: dict[str, object]
    task_creator: Callable[[], Iterator[TaskDict]]


class ProjectTasks:
    """The tasks of one project; they are run by ``executor``, which may be set until they are made."""

    def __init__(self, root: Path, reporter: MatrixReporter) -> None:
        self.executor: Executor = HERE
        self._root = root
        self._reporter = reporter

    def create(self) -> Iterator[TaskDict]:
        """Plan the project and yield its tasks."""
        try:
            settings = read_settings()
            self._reporter.plan = plan = load_plan(self._root, settings, self.executor.list_machines)
        except TvmbuildError as error:
            raise end_run(error) from error
        yield from list_tasks(plan, settings, self.executor)


def load_doit_file(dodo: str | os.PathLike[str]) -> DoitFile:
    """Return doit's settings and task creator for the project of this dodo.py, wherever doit was started."""
    root = Path(dodo).resolve().parent
    os.chdir(root)  # doit's own start folder, unless it was given -d; the tasks' paths are relative to it
    layout = Layout(root)
    reporter = MatrixReporter(layout)
    config = {
        "backend": "tvmbuild",
        "dep_file": str(layout.state),
        "reporter": reporter,
        "default_tasks": [stage.name for stage in STAGES],
        "continue": True,
        "minversion": "0.36.0",
    }
    return DoitFile(config, ProjectTasks(root, reporter).create)


def hand_in(executor: Executor, namespace: Mapping[str, object]) -> None:
    """Let the executor run the tasks of every project that a loaded dodo.py has in its ``namespace``."""
    for value in namespace.values():
        tasks = getattr(value, "__self__", None)
        if isinstance(tasks, ProjectTasks):
            tasks.executor = executor
