"""The database of doit as one file per step.

A file is written atomically when its step has finished, so that kill -9 loses no finished step. For a finished task,
doit calls `set` for every key and for `deps:` last. That key publishes the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tvmbuild.base.files import remove_leftovers, write_json
from tvmbuild.base.layout import Layout
from tvmbuild.doit_adapter.ending import end_run
from tvmbuild.engine.project_lock import hold_project_lock
from tvmbuild.engine.success import Success, read_success
from tvmbuild.errors import TvmbuildError

RECORD = "tvmbuild"
"""The key of tvmbuild's state among a task's values in doit's database."""
VALUES_KEY = "_values_:"
LAST_KEY = "deps:"
CHECKER_KEY = "checker:"
SUFFIX = ".json"


def find_success(values: Mapping[str, object]) -> Success | None:
    """Return the task's last success from the values that doit kept, or None if there was none."""
    return read_success(values.get(RECORD))


class StepState:
    """A backend of doit's database (`doit.BACKEND`) with one file per step.

    ``name`` is the path of the folder. Codecs are ignored.
    """

    desc = "one atomic file per step"

    def __init__(self, name: str, codec: object = None, *, module_name: str | None = None) -> None:  # noqa: ARG002
        self.name = name
        self.keeps: Callable[[str], bool] | None = None
        """A function, set while tasks run, that returns whether to keep the state of a task that doit removes."""
        self._folder = Path(name)
        self._known: dict[str, dict[str, object]] = {}
        self._dirty: set[str] = set()

    def get(self, task_id: str, dependency: str) -> object:
        """Return the value of the key ``dependency`` of the task, or None."""
        return self._load(task_id).get(dependency)

    def set(self, task_id: str, dependency: str, value: object) -> None:
        """Store the value of the task's key ``dependency``. LAST_KEY, which doit sets last, publishes all keys."""
        self._load(task_id)[dependency] = value
        self._dirty.add(task_id)
        if dependency == LAST_KEY:
            self._publish(task_id)

    def in_(self, task_id: str) -> bool:
        """Return whether the task has a state."""
        return bool(self._load(task_id))

    def recall(self, task_id: str) -> Success | None:
        """Return the task's last success, or None if there was none."""
        values = self.get(task_id, VALUES_KEY)
        return find_success(values) if isinstance(values, dict) else None

    def remove(self, task_id: str) -> None:
        """Forget the task, unless doit removes it only because another task failed."""
        if self.keeps is not None and self.keeps(task_id):
            self._known.pop(task_id, None)
            self._dirty.discard(task_id)
            return
        self._known[task_id] = {}
        self._dirty.discard(task_id)
        path = self._path(task_id)
        if path.exists():
            self._unlink(path)

    def remove_all(self) -> None:
        """Forget every task."""
        self._known.clear()
        self._dirty.clear()
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            self._unlink(path)

    def dump(self) -> None:
        """Write the values that are set but not on disk yet, for example those of `doit ignore`."""
        for task_id in sorted(self._dirty):
            self._publish(task_id)

    def _path(self, task_id: str) -> Path:
        return self._folder / f"{quote(task_id, safe='@+')}{SUFFIX}"

    def _load(self, task_id: str) -> dict[str, object]:
        known = self._known.get(task_id)
        if known is None:
            known = self._known[task_id] = _read(self._path(task_id))
        return known

    def _publish(self, task_id: str) -> None:
        self._dirty.discard(task_id)
        if all(not value or key == CHECKER_KEY for key, value in self._known[task_id].items()):
            return  # the task is a group, and has no values that a later run could compare
        path = self._path(task_id)
        with self._writing():
            remove_leftovers(path)  # from a doit that was killed at this point
            write_json(path, self._known[task_id])

    def _unlink(self, path: Path) -> None:
        with self._writing():
            path.unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the project's lock. If a file cannot be written in the context, end the run with a message."""
        try:
            hold_project_lock(self._folder.parent)
            yield
        except TvmbuildError as error:
            raise end_run(error) from error
        except OSError as error:
            message = f"cannot write to {self._folder}: {error.strerror}"
            hint = "Make room or make it writable, then run doit again: finished steps are not lost."
            raise end_run(TvmbuildError(message, hint)) from error


def open_state(root: Path) -> StepState:
    """Return the state of a project's steps."""
    return StepState(str(Layout(root).state))


def _read(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}  # unknown or damaged: the step runs again
    return value if isinstance(value, dict) else {}
