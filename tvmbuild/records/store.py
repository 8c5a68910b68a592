"""The store of record files, `records/<target>/<task key>.json`: sorted JSON that people can read and merge.

One file holds the workload (TVM's IRModule as JSON) and the target's resolved attributes. For each device class it
holds the number of measured candidates, the time that they took, and the best distinct traces. The files are plain
JSON: this module does not import tvm, and loading a file executes nothing.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvmbuild.base.files import canonical_json, identify, is_racy, publish
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.conflicts import check_conflict
from tvmbuild.records.task_file import Record, TaskFile, keep_best
from tvmbuild.records.trace_form import check_trace

FORMAT = 1
KEY = re.compile(r"[0-9a-f]{16}")
"""The form of a Task's key. The key with `.json` is the name of its file, so no other text may become a path."""


class DamagedRecordsError(TvmbuildError):
    """The error that a record file has invalid contents. The file then counts as absent."""


Read = Callable[[Path], TaskFile | None]
"""A function that reads record files: `read_task_file`, or a function with a cache."""


def record_path(folder: Path, key: str) -> Path:
    """Return the path of the Task's record file. ``folder`` is `records/<target>`."""
    return folder / f"{key}.json"


def read_task_file(path: Path) -> TaskFile | None:
    """Return the contents of a record file, or None if there is no file.

    Raises DamagedRecordsError if the contents are invalid. Raises a TvmbuildError of another class if the file cannot
    be read, holds both sides of a git merge, or was written by a newer tvmbuild. A file that many cells share is parsed
    once, as long as it does not change.
    """
    try:
        identity = identify(path)
        if is_racy(identity):
            return _read(path)
        return _read_once(path, identity)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TvmbuildError(f"{path}: {error.strerror}", "a record must be a file that this user can read") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedRecordsError(
            f"{path}: damaged record file ({type(error).__name__}: {error})",
            "restore it from git, or delete it and the Task is tuned again",
        ) from error


@functools.lru_cache(maxsize=1024)
def _read_once(path: Path, identity: tuple[int, ...]) -> TaskFile:  # noqa: ARG001 - the identity is the cache's key
    return _read(path)


def _read(path: Path) -> TaskFile:
    text = path.read_text(encoding="utf-8")
    try:
        data = json.loads(text)
    except ValueError:
        check_conflict(
            text,
            path,
            "run `tvmbuild records merge-driver --install`, then `git checkout --merge -- "
            f"{path}`: that unites what both sides have measured",
        )
        raise
    if not isinstance(data["format"], int) or data["format"] < FORMAT:
        raise ValueError("format is not a number of a format")
    if data["format"] > FORMAT:
        raise TvmbuildError(
            f"{path}: record format {data['format']}, this tvmbuild reads {FORMAT}",
            "update tvmbuild, or restore the file from git",
        )
    task = _task_file(data)
    if KEY.fullmatch(path.stem) and path.suffix == ".json" and task.key != path.stem:
        raise ValueError(f"it holds the Task {task.key}")
    return task


def _task_file(data: dict[str, Any]) -> TaskFile:
    check_target(data["target"])
    if not KEY.fullmatch(check_text(data, "key")):
        raise ValueError(f"the key {data['key']!r} is not 16 hex digits")
    task = TaskFile(
        key=data["key"],
        name=check_text(data, "name"),
        workload=check_text(data, "workload"),
        target=canonical_json(data["target"]),
        tvm=check_text(data, "tvm"),
        records=keep_best(tuple(_record(item) for item in data["records"])),
        searched=FrozenMap(sorted((str(k), check_count(v)) for k, v in data["searched"].items())),
        exhausted=tuple(sorted({str(item) for item in data["exhausted"]})),
        settled=FrozenMap(sorted((str(k), check_count(v)) for k, v in data.get("settled", {}).items())),
        rules=FrozenMap(sorted((str(k), check_count(v)) for k, v in data.get("rules", {}).items())),
        spent=FrozenMap(sorted((str(k), check_spent(v)) for k, v in data.get("spent", {}).items())),
    )
    classes = (name for counts in (task.searched, task.settled, task.rules, task.spent) for name in counts)
    for text in (task.key, task.name, task.workload, task.target, task.tvm, *task.exhausted, *classes):
        text.encode()  # a lone surrogate is valid JSON, but invalid text
    return task


def _record(data: dict[str, Any]) -> Record:
    check_trace(data["trace"])
    seconds = float(data["seconds"])
    if not 0 < seconds < math.inf:
        raise ValueError(f"a record's time is {seconds} seconds")
    record = Record(
        canonical_json(data["trace"]),
        seconds,
        check_text(data, "measured_on"),
        check_count(data["threads"]),
        check_text(data, "tvm"),
    )
    for text in (record.trace, record.measured_on, record.tvm):
        text.encode()
    return record


def write_task_file(path: Path, task: TaskFile) -> tuple[int, ...]:
    """Publish the record file. Return the first three items of its identity (see `identify`).

    These items distinguish it from a file that another process writes later. Keys are sorted and each trace instruction
    has its own line, so that git diffs are readable.
    """
    with publish(path) as temporary:
        temporary.write_bytes(format_task_file(task, FORMAT).encode())
        status = temporary.stat()
    return (status.st_ino, status.st_size, status.st_mtime_ns)


# Checks of a record file's fields. A wrong field raises ValueError, TypeError, KeyError or AttributeError.
# A field accepted here can be shown, added up and turned into a TVM target without further checks.

_MAX_COUNT = 1 << 53


def check_text(data: dict[str, Any], name: str) -> str:
    """Return the field ``name`` of ``data``. Raises KeyError if it is absent, TypeError if it is not text."""
    value = data[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a text")
    return value


def check_target(target: Any) -> None:
    """Raise an error unless the target has a kind, attributes and host attributes, with scalars or lists of scalars.

    The error is a KeyError, TypeError or AttributeError.
    """
    if not isinstance(target["kind"], str):
        raise TypeError("the target's kind is not a text")
    for part in ("attributes", "host"):
        for value in target[part].values():
            entries = value if isinstance(value, list) else [value]
            if not all(isinstance(entry, str | int | float) for entry in entries):
                raise TypeError(f"the target's {part} are not scalars and lists of scalars")


def check_count(value: Any) -> int:
    """Return the value as a number of candidates or threads. Raises ValueError or TypeError if it is not one."""
    count = int(value)
    if not 0 <= count < _MAX_COUNT:
        raise ValueError(f"a count of candidates is {value}")
    return count


def check_spent(value: object) -> float:
    """Return the value as a time in seconds. Raises ValueError if it is not one."""
    seconds = float(value) if isinstance(value, int | float) else math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"spent is {value} seconds")
    return seconds


# The text of a record file: keys sorted, one line for each trace instruction, so that git diffs are readable.


def format_task_file(task: TaskFile, version: int) -> str:
    """Return the text of the record file in that version of the format."""
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
