"""A tune step's record files while it searches: what a search starts from, what it has found, what is elected."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.database import TuningRecord

from tvmbuild.compiler.tasks import Task
from tvmbuild.files import canonical_json, remove_leftovers
from tvmbuild.layout import Layout
from tvmbuild.records.database import load_known
from tvmbuild.records.journal import Entry, absorb, append_entry, read_entries
from tvmbuild.records.seeds import Machine, read_foreign
from tvmbuild.records.selection import read_applicable, resolved_target
from tvmbuild.records.store import Record, TaskFile, record_path, write_task_file
from tvmbuild.records.traces import dump_trace, dump_workload, load_workload
from tvmbuild.records.verification import keep_good
from tvmbuild.specs import Step, TuneStep
from tvmbuild.tuner.pool import Timed
from tvmbuild.tuner.prior import Example
from tvmbuild.tuner.search import Start, TaskSearch
from tvmbuild.tuner.session import Batch

EXAMPLES = 12
"""Tasks that the cost model learns from before the first batch: 5 s, less than a batch, and worth one."""


class TaskRecords:
    """The record files of the Tasks that a step searches; every change is on disk when the method returns."""

    def __init__(self, step: Step, options: TuneStep, target: tvm.target.Target) -> None:
        self._layout = Layout(step.root)
        self._options = options
        self._target = target
        self._files: dict[str, TaskFile] = {}
        self._counted: dict[str, int] = {}
        self._fresh: dict[str, list[Record]] = {}

    def open(self, task: Task) -> TaskFile:
        """Return the Task's file with what an interrupted search left in its journal; a new one if there is none."""
        if task.key not in self._files:
            self._publish(task.key, absorb(self._read(task), read_entries(self._journal(task.key))), changed=False)
        return self._files[task.key]

    def find_start(self, task: Task) -> Start:
        """Return the schedules that the search starts from: this machine's, else what other targets found.

        What others found is used only where the tune step has seen it replay here.
        """
        own = self.open(task).best_on(machine_class())
        if own:
            return Start(known=self._load(own, task))
        foreign = read_foreign(self._layout, self.open(task), Machine(self._options.target, machine_class()))
        return Start(seeds=self._load(foreign, task))

    def find_examples(self, chosen: Iterable[Task]) -> list[Example]:
        """Return Tasks like the ``chosen`` that this machine has searched for this target, for the cost model to learn.

        Only what the tune step has seen replay here; at most EXAMPLES, those that the most candidates were measured of.
        """
        folder, searched = self._layout.records(self._options.target), {task.key for task in chosen}
        words = {_first_word(task.name) for task in chosen}
        found = []
        for path in sorted(folder.glob("*.json")):
            file = read_applicable(folder, path.stem, resolved_target(self._options))
            if file is None or file.key in searched or _first_word(file.name) not in words:
                continue
            good = keep_good(folder, file, file.best_on(machine_class()))
            if good:
                found.append(replace(file, records=good))
        found.sort(key=lambda file: -file.searched_on(machine_class()))
        return [self._as_example(file) for file in found[:EXAMPLES]]

    def journal(self, search: TaskSearch, candidate: Any, timed: Timed) -> None:
        """Write one measured candidate down; it is in the record file when its batch is added."""
        key = search.task.key
        record = None
        if timed.samples:
            trace = dump_trace(search.record(candidate, timed))
            record = Record(trace, _rounded(timed.seconds), machine_class(), _threads(), version("apache-tvm"))
            self._fresh.setdefault(key, []).append(record)
        self._counted[key] = self._counted.get(key, self._files[key].searched_on(machine_class())) + 1
        append_entry(self._journal(key), Entry(machine_class(), self._counted[key], record))

    def add(self, batch: Batch) -> None:
        """Write a batch's journaled measurements to its Task's record file."""
        key = batch.search.task.key
        found = tuple(self._fresh.pop(key, ()))
        file = self._files[key].with_results(machine_class(), found, len(batch.timed), batch.seconds)
        self._publish(key, file)

    def best(self, task: Task) -> tuple[tuple[Record, TuningRecord], ...]:
        """Return this machine's best records of the Task, as they are and as TVM's."""
        return tuple(load_known(self.open(task).best_on(machine_class()), task.mod, self._target))

    def close(self, search: TaskSearch, times: dict[Record, float]) -> None:
        """Write the times of the best records measured again and how the search ended; its journal goes."""
        key = search.task.key
        again = tuple(replace(record, seconds=_rounded(seconds)) for record, seconds in times.items())
        file = self._files[key].with_times(again)
        if search.exhausted:
            file = file.with_exhausted(machine_class())
        elif search.settled:
            file = file.with_settled(machine_class(), search.curve.stale)
        self._publish(key, file)
        self._journal(key).unlink(missing_ok=True)

    def _journal(self, key: str) -> Any:
        return self._layout.journal(self._options.target, key)

    def _publish(self, key: str, file: TaskFile, *, changed: bool = True) -> None:
        self._files[key] = file
        if changed:
            write_task_file(record_path(self._layout.records(self._options.target), key), file)

    def _read(self, task: Task) -> TaskFile:
        folder, resolved = self._layout.records(self._options.target), resolved_target(self._options)
        remove_leftovers(record_path(folder, task.key))
        return read_applicable(folder, task.key, resolved) or TaskFile(
            key=task.key,
            name=task.name,
            workload=dump_workload(task.mod),
            target=canonical_json(resolved.to_json()),
            tvm=version("apache-tvm"),
        )

    def _as_example(self, file: TaskFile) -> Example:
        mod = load_workload(file.workload)
        return Example(mod, tuple(loaded for _, loaded in load_known(file.records, mod, self._target)))

    def _load(self, records: tuple[Record, ...], task: Task) -> tuple[TuningRecord, ...]:
        return tuple(loaded for _, loaded in load_known(records, task.mod, self._target))


def _first_word(name: str) -> str:
    return name.split("_", 1)[0]


@cache
def machine_class() -> str:
    """Return this machine's device class: LLVM's name of its CPU, e.g. `znver4`."""
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


def _threads() -> int:
    return int(os.environ["TVM_NUM_THREADS"])


def _rounded(seconds: float) -> float:
    """Four digits are more than a timing is good for, and keep a git diff readable."""
    return float(f"{seconds:.4g}")
