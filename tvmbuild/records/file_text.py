"""The text of a record file: keys sorted, one line a trace instruction, so that a git diff can be read."""

from __future__ import annotations

import json

from tvmbuild.base.files import canonical_json
from tvmbuild.records.task_file import Record, TaskFile


def format_task_file(task: TaskFile, version: int) -> str:
    """Return the file's text, in that format version."""
    records = ",\n".join(_pretty_record(record) for record in task.records)
    fields = {
        "exhausted": canonical_json(list(task.exhausted)),
        "format": str(version),
        "key": json.dumps(task.key),
        "name": json.dumps(task.name),
        "records": f"[\n{records}\n ]" if records else "[]",
        "rules": canonical_json(task.rules) if task.rules else None,
        "searched": canonical_json(task.searched),
        "settled": canonical_json(task.settled) if task.settled else None,
        "spent": canonical_json(task.spent) if task.spent else None,
        "target": task.target,
        "tvm": json.dumps(task.tvm),
        "workload": json.dumps(task.workload, ensure_ascii=False),
    }
    return "{\n" + ",\n".join(f' "{name}": {text}' for name, text in fields.items() if text is not None) + "\n}\n"


def _pretty_record(record: Record) -> str:
    trace = json.loads(record.trace)
    instructions = ",\n".join(f"     {canonical_json(item)}" for item in trace["instructions"])
    body = f'"decisions": {canonical_json(trace["decisions"])},\n    "instructions": [\n{instructions}\n    ]'
    lines = [
        f'   "measured_on": {json.dumps(record.measured_on)}',
        f'   "seconds": {record.seconds!r}',
        f'   "threads": {record.threads}',
        f'   "trace": {{\n    {body}\n   }}',
        f'   "tvm": {json.dumps(record.tvm)}',
    ]
    return "  {\n" + ",\n".join(lines) + "\n  }"
