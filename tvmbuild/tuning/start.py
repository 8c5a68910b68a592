"""The start of a search: known schedules of the same Task, and similar Tasks that the cost model learns from first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import tvm
import tvm_ffi
from tvm.s_tir.meta_schedule.database import TuningRecord

from tvmbuild.compiler.tasks import Task
from tvmbuild.records.block_names import list_blocks
from tvmbuild.records.task_file import Record
from tvmbuild.replay.database import load_known
from tvmbuild.replay.traces import dump_workload, load_workload
from tvmbuild.replay.verification import keep_good
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.prior import Example
from tvmbuild.tuning.record_book import RecordBook
from tvmbuild.tuning.task_search import Start

LOOKED_AT = 300
"""The number of record files in which examples are looked for. File names are digests, so the first files are a fair
sample.
"""
EXAMPLES = 12
"""The largest number of Tasks that the cost model learns from first. This takes 5 s, less than a batch, and is worth a
batch.
"""


def as_recorded(book: RecordBook, task: Task) -> Task:
    """Return the Task with the block names of its record file.

    All traces in the file must find the blocks by one name.
    """
    workload = book.open(task).workload
    if list_blocks(workload) == list_blocks(dump_workload(task.mod)):
        return task
    mod = load_workload(workload)
    return replace(task, mod=mod) if tvm_ffi.structural_equal(mod, task.mod, map_free_vars=True) else task


def find_start(job: Job, book: RecordBook, task: Task, target: tvm.target.Target) -> Start:
    """Return the records that the search starts from: this machine's own or, if there are none, foreign ones.

    Records of other targets or machines are used only after they have replayed here.
    """
    file, own = book.open(task), book.best_here(task)
    searched = file.searched_on(book.device_class)
    if own:
        return Start(known=_load(own, task.mod, target), searched=searched, has_rules=not book.lags(file))
    foreign = keep_good(job.records, file, book.list_foreign(file))
    return Start(seeds=_load(foreign, task.mod, target), searched=searched)


def find_examples(job: Job, book: RecordBook, chosen: Iterable[Task], target: tvm.target.Target) -> list[Example]:
    """Return Tasks that resemble the ``chosen`` ones, with this machine's records, for the cost model to learn from.

    A Task resembles another if their names begin with the same word. Only records for this target that have replayed
    here count. At most EXAMPLES Tasks are returned: those with the most measured candidates.
    """
    tasks = tuple(chosen)
    searched, words = {task.key for task in tasks}, {_first_word(task.name) for task in tasks}
    found = []
    for path in islice(sorted(job.records.glob("*.json")), LOOKED_AT):
        file = book.file(path.stem)
        if file is None or file.key in searched or _first_word(file.name) not in words:
            continue
        good = keep_good(job.records, file, file.best_on(book.device_class))
        if good:
            found.append(replace(file, records=good))
    found.sort(key=lambda file: -file.searched_on(book.device_class))
    mods = [(load_workload(file.workload), file.records) for file in found[:EXAMPLES]]
    return [Example(mod, _load(records, mod, target)) for mod, records in mods]


def _load(records: tuple[Record, ...], mod: tvm.ir.IRModule, target: tvm.target.Target) -> tuple[TuningRecord, ...]:
    return tuple(loaded for _, loaded in load_known(records, mod, target))


def _first_word(name: str) -> str:
    return name.split("_", 1)[0]
