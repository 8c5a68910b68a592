"""A tune step's record files while it searches: what a search starts from, what it has found, what is elected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from itertools import islice
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.meta_schedule.database import TuningRecord

from tvmbuild.compiler.tasks import Task
from tvmbuild.devices.rpc_boards import find_board_class
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import canonical_json, remove_leftovers, sync
from tvmbuild.layout import Layout
from tvmbuild.package.runtime.host import find_device
from tvmbuild.progress import report_progress
from tvmbuild.records.block_names import list_blocks, records_for
from tvmbuild.records.journal import Entry, absorb, append_entry, digest_target, read_entries
from tvmbuild.records.merge import merge_files
from tvmbuild.records.seeds import Machine, read_foreign
from tvmbuild.records.selection import read_applicable, resolved_target
from tvmbuild.records.store import Record, TaskFile, record_path, write_task_file
from tvmbuild.replay.database import load_known
from tvmbuild.replay.traces import dump_trace, dump_workload, load_workload
from tvmbuild.replay.verification import keep_good
from tvmbuild.specs import RpcDevice
from tvmbuild.steps import Step, TuneStep
from tvmbuild.tuning.pool import Timed
from tvmbuild.tuning.prior import Example
from tvmbuild.tuning.session import Batch
from tvmbuild.tuning.task_search import Start, TaskSearch

LOOKED_AT = 300
"""Record files that are looked at for examples: their names are digests, so the first are as good as any."""
EXAMPLES = 12
"""Tasks that the cost model learns from before the first batch: 5 s, less than a batch, and worth one."""


class TaskRecords:
    """The record files of the Tasks that a step searches; every change is on disk when the method returns."""

    def __init__(self, step: Step[TuneStep], options: TuneStep, target: tvm.target.Target) -> None:
        self._layout = Layout(step.root)
        self._options = options
        self._target = target
        self._class = device_class(options)
        self._folder = self._layout.records(options.target)
        self._files: dict[str, TaskFile] = {}
        self._on_disk: dict[str, TaskFile] = {}
        self._trusted: set[str] = set()
        """Traces that the tune step has seen replay, or has measured."""
        self._counted: dict[str, int] = {}
        self._fresh: dict[str, list[Record]] = {}

    def open(self, task: Task) -> TaskFile:
        """Return the Task's file with what an interrupted search left in its journal; a new one if there is none."""
        if task.key not in self._files:
            file = self._read(task)
            self._on_disk[task.key] = file
            self._files[task.key] = absorb(file, read_entries(self._journal(task.key)))
            self._trusted |= {record.trace for record in self._files[task.key].records}
        return self._files[task.key]

    def as_recorded(self, task: Task) -> Task:
        """Return the Task with its blocks called as in its file: all traces there must find them by one name."""
        workload = self.open(task).workload
        if list_blocks(workload) == list_blocks(dump_workload(task.mod)):
            return task
        mod = load_workload(workload)
        return replace(task, mod=mod) if tvm_ffi.structural_equal(mod, task.mod, map_free_vars=True) else task

    def best_here(self, task: Task) -> tuple[Record, ...]:
        """Return this machine's records of the Task, the fastest first."""
        return self.open(task).best_on(self._class)

    def find_start(self, task: Task) -> Start:
        """Return the schedules that the search starts from: this machine's, else what other targets found.

        What others found is used only where the tune step has seen it replay here.
        """
        searched = self.open(task).searched_on(self._class)
        own = self.best_here(task)
        if own:
            return Start(known=self._load(own, task), searched=searched)
        foreign = read_foreign(self._layout, self.open(task), Machine(self._options.target, self._class))
        return Start(seeds=self._load(foreign, task), searched=searched)

    def find_examples(self, chosen: Iterable[Task]) -> list[Example]:
        """Return Tasks like the ``chosen`` that this machine has searched for this target, for the cost model to learn.

        Only what the tune step has seen replay here; at most EXAMPLES, those that the most candidates were measured of.
        """
        folder, searched = self._folder, {task.key for task in chosen}
        words = {_first_word(task.name) for task in chosen}
        found = []
        for path in islice(sorted(folder.glob("*.json")), LOOKED_AT):
            file = read_applicable(folder, path.stem, resolved_target(self._options))
            if file is None or file.key in searched or _first_word(file.name) not in words:
                continue
            good = keep_good(folder, file, file.best_on(self._class))
            if good:
                found.append(replace(file, records=good))
        found.sort(key=lambda file: -file.searched_on(self._class))
        return [self._as_example(file) for file in found[:EXAMPLES]]

    def journal(self, search: TaskSearch, candidate: Any, timed: Timed) -> None:
        """Write one measured candidate down; it is in the record file when its batch is added."""
        key = search.task.key
        record = None
        if timed.samples:
            trace = dump_trace(search.record(candidate, timed))
            record = Record(trace, _rounded(timed.seconds), self._class, self._options.threads, version("apache-tvm"))
            self._fresh.setdefault(key, []).append(record)
            self._trusted.add(trace)
        self._counted[key] = self._counted.get(key, self._files[key].searched_on(self._class)) + 1
        entry = Entry(self._class, self._counted[key], record, digest_target(self._files[key]))
        append_entry(self._journal(key), entry)

    def add(self, batch: Batch) -> None:
        """Write a batch's journaled measurements to its Task's record file."""
        key = batch.search.task.key
        found = tuple(self._fresh.pop(key, ()))
        file = self._take_in(key).with_results(self._class, found, len(batch.timed), batch.seconds)
        self._publish(key, file)

    def best(self, task: Task) -> tuple[tuple[Record, TuningRecord], ...]:
        """Return this machine's best records of the Task, as they are and as TVM's.

        Not those that came from elsewhere meanwhile: nobody has seen them replay.
        """
        known = [record for record in self.best_here(task) if record.trace in self._trusted]
        return tuple(load_known(known, task.mod, self._target))

    def close(self, search: TaskSearch, times: Mapping[Record, float | None], *, some_were_wrong: bool = False) -> None:
        """Write the times of the best records measured again and how the search ended; its journal goes.

        None: the record did not run again, and a lucky first time must not win; or it computes wrong numbers.
        TvmbuildError when none of several ran: that is the machine's fault, and the journal stays for the next run.
        """
        key = search.task.key
        failed = {record.trace for record, seconds in times.items() if seconds is None}
        if len(failed) == len(times) > 1 and not some_were_wrong:
            raise TvmbuildError(
                f"none of the best schedules of the Task {search.task.name} ({key}) ran when they were timed again",
                "make room in the temporary folder (TMPDIR) and free memory; what was measured is kept",
            )
        again = [replace(record, seconds=_rounded(seconds)) for record, seconds in times.items() if seconds is not None]
        file = self._take_in(key)
        kept = [each for each in file.records if each.measured_on != self._class or each.trace not in failed]
        file = replace(file, records=tuple(kept)).with_times(tuple(again))
        if search.exhausted:
            file = file.with_exhausted(self._class)
        elif search.settled:
            file = file.with_settled(self._class, search.curve.stale)
        self._publish(key, file)
        sync(record_path(self._folder, key))
        self._journal(key).unlink(missing_ok=True)

    def _journal(self, key: str) -> Any:
        return self._layout.journal(self._options.target, key)

    def _publish(self, key: str, file: TaskFile) -> None:
        self._files[key] = self._on_disk[key] = file
        write_task_file(record_path(self._folder, key), file)

    def _take_in(self, key: str) -> TaskFile:
        """Return the file, united with what something else (a git pull, a merge) wrote there since we did."""
        file = self._files[key]
        there = read_applicable(self._folder, key, resolved_target(self._options))
        if there is None or there == self._on_disk[key]:
            return file
        # The search goes on calling blocks as it has.
        return merge_files(replace(there, workload=file.workload, records=records_for(file.workload, there)), file)

    def _read(self, task: Task) -> TaskFile:
        resolved = resolved_target(self._options)
        remove_leftovers(record_path(self._folder, task.key))
        return read_applicable(self._folder, task.key, resolved) or TaskFile(
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


def device_class(options: TuneStep) -> str:
    """Return the class of the device that the step measures on.

    That is LLVM's name of this machine's CPU, e.g. `znver4`, or the driver's of its GPU, `h200`; of boards what the
    target calls them (`measured_on`), else LLVM's name of theirs, for which one is asked.
    """
    if isinstance(options.device, RpcDevice):
        return options.measured_on or _ask_board(options.device)
    if options.kind != "llvm":
        return describe_gpu(options.kind)
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


@cache
def describe_gpu(kind: str) -> str:
    """Return the driver's name of this machine's first GPU, as a device class: `h200` of NVIDIA H200.

    What stands in brackets is not in it: versions, chips, and that Intel(R) is a mark.
    """
    find_device(kind)
    name = re.sub(r"\([^)]*\)", "", str(tvm.device(kind, 0).device_name))
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join(word for word in words if word != "nvidia")


@cache
def _ask_board(device: RpcDevice) -> str:
    report_progress(f"asking a board {device.key} what it is")
    return find_board_class(device)


def _rounded(seconds: float) -> float:
    """Four digits are more than a timing is good for, and keep a git diff readable."""
    return float(f"{seconds:.4g}")
