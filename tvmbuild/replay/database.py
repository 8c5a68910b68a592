"""Conversion of a Schedule, or of a Task's records, to MetaSchedule's in-memory Database and its records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord

from tvmbuild.base.files import canonical_json
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.block_names import list_blocks, rename_blocks
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.task_file import Record
from tvmbuild.replay.traces import dump_workload, load_record


def database_from_schedule(schedule: Schedule, tasks: Sequence[Any], target: tvm.target.Target) -> MemoryDatabase:
    """Return a Database with the Schedule's traces for the cell's ``tasks`` (compiler.tasks.Task).

    If this TVM cannot read a trace, this raises TvmbuildError, which names the Task.
    """
    database = MemoryDatabase()
    for task in tasks:
        if task.key in schedule.traces:
            workload, winner = database.commit_workload(task.mod), json.loads(schedule.traces[task.key])
            recorded = schedule.blocks.get(task.key, ())
            trace = rename_blocks(winner, recorded, list_blocks(dump_workload(task.mod)))
            try:
                database.commit_tuning_record(load_record(canonical_json(trace), workload, target))
            except TvmbuildError as error:
                raise TvmbuildError(
                    f"Task {task.key} ({task.name}): {error.message}",
                    f"delete records/…/{task.key}.json and run tune again",
                ) from error
    return database


def load_known(
    records: Sequence[Record], mod: tvm.IRModule, target: tvm.target.Target
) -> list[tuple[Record, TuningRecord]]:
    """Return each record with its TuningRecord, including its time. Records that this TVM cannot read are omitted."""
    workload = MemoryDatabase().commit_workload(mod)
    known = []
    for record in records:
        try:
            loaded = load_record(record.trace, workload, target)
        except TvmbuildError:
            continue
        known.append((record, TuningRecord(loaded.trace, workload, [record.seconds], target, loaded.args_info)))
    return known
