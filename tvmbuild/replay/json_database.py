"""The process that converts between record files and the folder of a MetaSchedule JSONDatabase.

`tvmbuild records import` and `export` start it as ``python -m tvmbuild.replay.json_database``, with the request as JSON
on stdin. The action `import` writes record files into a folder, and `export` writes the two files of a database. The
process prints one line of JSON: the counts, or ``{"error": …}``.
"""

from __future__ import annotations

import base64
import json
import math
import os
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics

skip_tensor_intrinsics()  # 15 s of CPU at import, and no rule of llvm uses it

import tvm  # noqa: E402
from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord, Workload  # noqa: E402

from tvmbuild.base.files import canonical_json  # noqa: E402
from tvmbuild.base.processes import die_with_parent  # noqa: E402
from tvmbuild.compiler.tasks import task_key  # noqa: E402
from tvmbuild.errors import TvmbuildError  # noqa: E402
from tvmbuild.records.folders import list_record_files  # noqa: E402
from tvmbuild.records.merge import IMPORTED  # noqa: E402
from tvmbuild.records.store import read_task_file, record_path, write_task_file  # noqa: E402
from tvmbuild.records.task_file import Record, TaskFile  # noqa: E402
from tvmbuild.records.trace_form import check_trace  # noqa: E402
from tvmbuild.replay.record_check import make_target  # noqa: E402
from tvmbuild.replay.traces import dump_trace, dump_workload, load_record, load_workload  # noqa: E402

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
FAILED_SECONDS = 1e9
"""The upper limit of plausible times, in seconds. MetaSchedule writes 1e10 for a candidate that did not run."""
_IGNORED = frozenset({"keys", "tag"})
_LENGTH_BYTES = 8
_FLAG = "meta_schedule.layout_rewrite_preproc"


@dataclass(frozen=True)
class _Origin:
    """The machine that measured the imported records. The database does not name it."""

    device_class: str
    threads: int


def main() -> int:
    """Import or export as the request on stdin asks, and print the answer. Return the exit status."""
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    done: dict[str, Any]
    try:
        done = _import(request) if request["action"] == "import" else _export(request)
    except TvmbuildError as error:
        done = {"error": error.message, "hint": error.hint}
    print(json.dumps(done), file=answers, flush=True)
    return 0


# --------------------------------------------------------------------------- import


def _import(request: dict[str, Any]) -> dict[str, int]:
    """Write the database's records as record files into the folder ``into``. Return the counts by outcome."""
    folder, target = Path(request["folder"]), make_target(request["target"])
    here = str(tvm.get_global_func("target.llvm_get_system_cpu")())
    origin = _Origin(request["measured_on"] or here, int(request["threads"]))
    workloads = [_read_workload(folder, number, line) for number, line in _lines(folder / WORKLOADS)]
    files: dict[str, TaskFile] = {}
    counts = {"records": 0, "failed": 0, "unreadable": 0}
    for number, line in _lines(folder / RECORDS):
        index, (trace, times, theirs, _) = _read_line(folder / RECORDS, number, line)
        _check_target(theirs, target, f"{folder / RECORDS}, line {number}")
        if not 0 <= index < len(workloads):
            raise TvmbuildError(
                f"{folder / RECORDS}, line {number}: there is no workload {index}",
                "the two files are not of one database: a merge by lines ruins it",
            )
        workload, version = workloads[index]
        key = task_key(workload.mod)
        file = files.get(key) or _new_file(key, workload.mod, request["target"], version)
        seconds = _median(times)
        records: tuple[Record, ...] = ()
        if seconds is None:
            counts["failed"] += 1
        elif (text := _normalise(trace, workload, target)) is None:
            counts["unreadable"] += 1
        else:
            counts["records"] += 1
            records = (Record(text, seconds, origin.device_class, origin.threads, version),)
        files[key] = file.with_results(origin.device_class, records, 1)
    for key, file in files.items():
        write_task_file(record_path(Path(request["into"]), key), file)
    return counts


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as stream:
            yield from ((number, line) for number, line in enumerate(stream, 1) if line.strip())
    except OSError as error:
        raise TvmbuildError(f"{path}: {error.strerror}", f"a database is {WORKLOADS} and {RECORDS}") from error
    except UnicodeDecodeError as error:
        raise TvmbuildError(f"{path} is not text", f"a database is {WORKLOADS} and {RECORDS}") from error


def _read_workload(folder: Path, number: int, line: str) -> tuple[Workload, str]:
    """Return the workload in a line of the database, and the TVM version that wrote it."""
    try:
        _, encoded = json.loads(line)
        text = base64.b64decode(encoded)[_LENGTH_BYTES:].decode()
        version = str(json.loads(text).get("metadata", {}).get("tvm_version", tvm.__version__))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise TvmbuildError(f"{folder / WORKLOADS}, line {number}: not a workload", "restore the file") from error
    return Workload(load_workload(text)), version


def _read_line(path: Path, number: int, line: str) -> tuple[int, list[Any]]:
    try:
        index, record = json.loads(line)
        if type(index) is int and len(record) == 4:
            return index, record
    except (ValueError, TypeError, RecursionError):
        pass
    raise TvmbuildError(f"{path}, line {number}: not a tuning record", "restore the file, or remove the line")


def _check_target(theirs: Any, ours: tvm.target.Target, where: str) -> None:
    """Raise TvmbuildError, which names the differences, if a record was made for another target.

    An absent mtriple matches any machine.
    """
    if not isinstance(theirs, dict):
        raise TvmbuildError(
            f"{where}: the record does not say for which target it is",
            "only records that name their target can be imported",
        )
    wanted, found = _plain(ours.export()), _plain(theirs)
    differ = [
        f"{name} is {found.get(name, 'absent')} there and {wanted.get(name, 'absent')} here"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name) and not (name.endswith("mtriple") and name not in found)
    ]
    if differ:
        raise TvmbuildError(f"{where}: made for another target: {'; '.join(differ)}", "name the target that it is for")


def _plain(target: Any, prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in target.items():
        if name == "host" and hasattr(value, "items"):
            values |= _plain(value, "host.")
        elif name not in _IGNORED:
            values[prefix + name] = list(value) if isinstance(value, list | tuple | tvm.ir.Array) else value
    return values


def _new_file(key: str, mod: tvm.IRModule, target: Any, version: str) -> TaskFile:
    return TaskFile(key, IMPORTED, dump_workload(mod), canonical_json(target), version)


def _median(times: Any) -> float | None:
    """Return the median of a record's times in seconds, or None if the candidate did not run."""
    if not isinstance(times, list) or not times:
        return None
    seconds = statistics.median(_as_seconds(value) for value in times)
    return float(f"{seconds:.4g}") if 0 < seconds < FAILED_SECONDS else None


def _as_seconds(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) else math.inf
    except OverflowError:
        return math.inf


def _normalise(trace: Any, workload: Workload, target: tvm.target.Target) -> str | None:
    """Return the trace as text in the form of record files, or None if TVM cannot read it for its workload."""
    try:
        instructions, decisions = trace
        value = {"instructions": instructions, "decisions": decisions}
        check_trace(value)
        value["instructions"] = [_restore_flag(instruction) for instruction in instructions]
        return dump_trace(load_record(canonical_json(value), workload, target))
    except (ValueError, TypeError, RecursionError, TvmbuildError):
        return None


def _restore_flag(instruction: list[Any]) -> list[Any]:
    """Return the instruction with its layout-rewrite flag as a bool, because the database writes true as 1."""
    name, inputs, attributes, outputs = instruction
    if name == "Annotate" and attributes == [_FLAG] and len(inputs) == 2 and inputs[1] in (0, 1):
        return [name, [inputs[0], bool(inputs[1])], attributes, outputs]
    return instruction


# --------------------------------------------------------------------------- export


def _export(request: dict[str, Any]) -> dict[str, int]:
    """Write all record files of ``folder`` as a database into ``into``. Return the numbers of Tasks and records."""
    target, into = make_target(request["target"]), Path(request["into"])
    database = JSONDatabase(str(into / WORKLOADS), str(into / RECORDS), allow_missing=True)
    counts = {"tasks": 0, "records": 0}
    for path in list_record_files(Path(request["folder"])):
        file = read_task_file(path)
        if file is not None and file.records:
            workload = database.commit_workload(load_workload(file.workload))
            for record in file.records:
                loaded = load_record(record.trace, workload, target)
                timed = TuningRecord(loaded.trace, workload, [record.seconds], target, loaded.args_info)
                database.commit_tuning_record(timed)
            counts["tasks"] += 1
            counts["records"] += len(file.records)
    return counts


if __name__ == "__main__":
    sys.exit(main())
