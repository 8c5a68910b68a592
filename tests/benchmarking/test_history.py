from __future__ import annotations

import json
import math
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmark_results import make_entry, make_result

from tvmbuild.base.files import sha256_file, write_json
from tvmbuild.benchmarking.history import (
    History,
    append_entry,
    digest_schedules,
    read_entry,
    read_history,
)
from tvmbuild.benchmarking.history import make_entry as make_new_entry
from tvmbuild.benchmarking.results import read_result

RESULT: dict[str, Any] = make_result().to_json()


def test_a_result_survives_json() -> None:
    result = replace(make_result(), warnings=("busy",))
    assert read_result(json.loads(json.dumps(result.to_json()))) == result


@pytest.mark.parametrize(
    "damage",
    [
        {"format": 1},
        {"format": None},
        {"threads": "x"},
        {"latency_ms": {"median": 1.0}},
        {"latency_ms": 3},
        {"baselines": [{"name": "onnxruntime"}]},
        {"package": {}},
        {"machine": {"cpu": 3}},
        {"machine": None},
        {"operators": [{}]},
        {"threads": math.inf},
        {"latency_ms": {**RESULT["latency_ms"], "p95": math.inf}},
        {"latency_ms": {**RESULT["latency_ms"], "repeat": math.inf}},
        {"machine": {**RESULT["machine"], "others": "x"}},
        {"machine": {**RESULT["machine"], "others": math.nan}},
        {"machine": {**RESULT["machine"], "governor": 1}},
        {"machine": {**RESULT["machine"], "cores": True}},
        {"operators": [{**RESULT["operators"][0], "share": None}]},
        {"operators": [{**RESULT["operators"][0], "covered": 1}]},
    ],
)
def test_a_damaged_result_is_none(damage: dict[str, object]) -> None:
    assert read_result({**make_result().to_json(), **damage}) is None


def test_lines_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "build" / "history.jsonl"
    assert read_history(path).entries == ()
    entries = [make_entry(index, make_result(ms=1.0 + index), a="1", b="2") for index in range(3)]
    for entry in entries:
        append_entry(path, entry)
    assert read_history(path).entries == tuple(entries)
    assert len(path.read_text().splitlines()) == 3


def test_a_torn_last_line_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first, second = (make_entry(index, make_result()) for index in range(2))
    append_entry(path, first)
    whole = path.read_bytes()
    append_entry(path, second)
    path.write_bytes(path.read_bytes()[:-40])
    history = read_history(path)
    assert (history.entries, history.damaged) == ((first,), 0)
    append_entry(path, second)
    history = read_history(path)
    assert (history.entries, history.damaged) == ((first, second), 1)
    assert path.read_bytes().startswith(whole)


@pytest.mark.parametrize("line", [b"{", b"[1]", b"null", b"\xff\xfe", b'{"format": 2}', b"[" * 100_000])
def test_damaged_lines_are_counted_and_left_out(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "history.jsonl"
    entry = make_entry(5, make_result())
    path.write_bytes(line + b"\n\n")
    append_entry(path, entry)
    history = read_history(path)
    assert (history.entries, history.damaged) == ((entry,), 1)


@pytest.mark.parametrize("time", [-1, 1 << 40, math.inf, math.nan, None, "x"])
def test_a_line_of_no_time_is_damaged(tmp_path: Path, time: float | str | None) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps({**RESULT, "time": time, "schedules": None}) + "\n")
    assert read_history(path) == History((), 1)
    path.write_text(json.dumps({**RESULT, "time": 7, "schedules": None}) + "\n")
    assert [entry.time for entry in read_history(path).entries] == [7]


def _append_many(path: str, cell: str) -> None:
    for index in range(50):
        append_entry(Path(path), make_entry(index, make_result(cell)))


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_append_many, args=(str(path), f"net{i}@cpu")) for i in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    history = read_history(path)
    assert (len(history.entries), history.damaged) == (150, 0)


def test_a_result_file_is_an_entry_too(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, make_result().to_json())
    entry = read_entry(path.read_bytes(), when=7)
    assert entry is not None
    assert (entry.time, entry.schedules, entry.result) == (7, None, make_result())
    assert read_entry(path.read_bytes()) is None


def test_schedules_count_only_when_the_package_was_made_with_them(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    write_json(path, {"schedule": {"b": {"trace": [1]}, "a": {"trace": [2]}}})
    used = sha256_file(path)
    entry = make_new_entry(make_result(), path, used)
    assert entry.schedules == digest_schedules(path)
    assert list(entry.schedules or ()) == ["a", "b"]
    write_json(path, {"schedule": {"b": {"trace": [1]}, "a": {"trace": [3]}}})
    assert make_new_entry(make_result(), path, used).schedules is None
    after = digest_schedules(path)
    assert [pair in after.items() for pair in (entry.schedules or {}).items()] == [False, True]
    assert list(after) == ["a", "b"]
    assert make_new_entry(make_result(), tmp_path / "absent", used).schedules is None
