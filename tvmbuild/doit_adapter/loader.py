"""The loader that `dodo.py` calls. It turns the project of the dodo.py into doit's settings and tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tvmbuild.base.layout import Layout, ensure_home
from tvmbuild.doit_adapter.doit_tasks import TaskDict, list_tasks
from tvmbuild.doit_adapter.ending import end_run
from tvmbuild.doit_adapter.manner import Manner
from tvmbuild.doit_adapter.reporter import MatrixReporter
from tvmbuild.doit_adapter.variables import read_settings
from tvmbuild.engine.executor import Executor
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import load_plan
from tvmbuild.stages.table import STAGES


class DoitFile(NamedTuple):
    """The names that doit looks for in a dodo.py: `DOIT_CONFIG` and a function called `task_…`."""

    config: dict[str, object]
    task_creator: Callable[[], Iterator[TaskDict]]


def load_doit_file(dodo: str | os.PathLike[str]) -> DoitFile:
    """Return doit's settings and task creator for the project of this dodo.py, wherever doit was started."""
    ensure_home()
    root = Path(dodo).resolve().parent
    os.chdir(root)  # doit's own start folder, unless it was given -d; the tasks' paths are relative to it
    layout = Layout(root)
    reporter = MatrixReporter(layout)

    def create_tasks() -> Iterator[TaskDict]:
        try:
            settings = read_settings()
            reporter.plan = plan = load_plan(root, settings, reporter.executor.list_machines)
        except TvmbuildError as error:
            raise end_run(error) from error
        yield from list_tasks(plan, settings, reporter.executor)

    config = {
        "backend": "tvmbuild",
        "dep_file": str(layout.state),
        "reporter": reporter,
        "default_tasks": [stage.name for stage in STAGES],
        "continue": True,
        "minversion": "0.36.0",
    }
    return DoitFile(config, create_tasks)


def hand_in(executor: Executor, namespace: Mapping[str, object], manner: Manner | None = None) -> None:
    """Set the executor, and the options of the output, for the project of a loaded dodo.py.

    ``namespace`` are the names that the dodo.py defines. Raises TvmbuildError if they lack tvmbuild's DOIT_CONFIG and
    the executor runs steps on other machines.
    """
    config = namespace.get("DOIT_CONFIG")
    reporter = config.get("reporter") if isinstance(config, dict) else None
    if isinstance(reporter, MatrixReporter):
        reporter.executor, reporter.manner = executor, manner or Manner()
    elif not executor.is_here:
        raise TvmbuildError(
            "dodo.py has no DOIT_CONFIG of tvmbuild's, so that its steps would all run here",
            "write `DOIT_CONFIG, task_steps = load_doit_file(__file__)`",
        )
