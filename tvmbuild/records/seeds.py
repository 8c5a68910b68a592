"""Schedules of other targets and machines that a search of a Task may start from. This module imports no tvm."""

from __future__ import annotations

import json

from tvmbuild.base.layout import Layout
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.block_names import records_for
from tvmbuild.records.store import Read, read_task_file
from tvmbuild.records.task_file import BEST, Record, TaskFile


def list_foreign(layout: Layout, file: TaskFile, device_class: str, read: Read = read_task_file) -> tuple[Record, ...]:
    """Return at most BEST schedules that other machines, or targets of the same kind, have found for the file's Task.

    They are not verified yet. Each file's own order is kept, because times of different targets and machines are never
    compared.
    """
    kind = json.loads(file.target)["kind"]
    found = [record for record in file.records if record.measured_on != device_class]
    for path in sorted(layout.records("").glob(f"*/{file.key}.json")):
        try:
            other = read(path)
        except TvmbuildError as error:
            print(f"not used as a seed: {error.message}")
            continue
        if other and other.target != file.target and json.loads(other.target)["kind"] == kind:
            found += records_for(file.workload, other)[:BEST]
    return tuple({record.trace: record for record in found}.values())[:BEST]
