from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvmbuild.base import files
from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError
from tvmbuild.records import store
from tvmbuild.records.store import read_task_file, write_task_file
from tvmbuild.records.task_file import BEST, Record, ResolvedTarget, TaskFile, keep_best

TARGET = ResolvedTarget("llvm", FrozenMap({"mattr": ("+avx2",), "mcpu": "x86-64-v3", "num-cores": 2}))


def trace(number: int) -> str:
    return canonical_json({"decisions": [[0, number]], "instructions": [["GetSBlock", [], ["C", "main"], ["b0"]]]})


def record(number: int, seconds: float, measured_on: str = "znver4") -> Record:
    return Record(trace(number), seconds, measured_on, 2, "0.27.0")


def task_file(*records: Record) -> TaskFile:
    return TaskFile("00ff" * 4, "conv2d_add", '{"nodes":[]}', canonical_json(TARGET.to_json()), "0.27.0", records)


def test_a_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    file = task_file().with_results("znver4", (record(1, 2e-6), record(2, 1.5e-6)), 32).with_exhausted("znver4")
    assert file.list_lagging(1) == []
    assert file.list_lagging(2) == ["znver4"]
    file = file.with_rules("znver4", 2)
    assert file.list_lagging(2) == []
    write_task_file(path, file)
    assert read_task_file(path) == file
    assert file.searched == {"znver4": 32}
    assert file.exhausted == ("znver4",)


def test_the_file_is_sorted_and_has_one_line_an_instruction(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_task_file(path, task_file(record(1, 2e-6)))
    text = path.read_text()
    data = json.loads(text)
    assert list(data) == sorted(data)
    assert list(data["records"][0]) == sorted(data["records"][0])
    assert '     ["GetSBlock",[],["C","main"],["b0"]]\n' in text
    assert text.endswith("}\n")
    assert data["target"] == {
        "attributes": {"mattr": ["+avx2"], "mcpu": "x86-64-v3", "num-cores": 2},
        "host": {},
        "kind": "llvm",
    }


def test_the_best_five_distinct_traces_of_each_class_are_kept() -> None:
    many = tuple(record(i, 10.0 - i) for i in range(9))
    kept = keep_best((*many, record(8, 5.0), record(0, 1e-9, "cortex-a72")))
    assert [r.measured_on for r in kept] == ["cortex-a72"] + ["znver4"] * BEST
    assert [r.seconds for r in kept[1:]] == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert len({r.trace for r in kept if r.measured_on == "znver4"}) == BEST


def test_counts_of_one_class_add_up_and_others_stay() -> None:
    file = task_file().with_results("znver4", (), 32).with_results("cortex-a72", (), 8).with_results("znver4", (), 10)
    assert list(file.searched.items()) == [("cortex-a72", 8), ("znver4", 42)]
    assert file.searched_on("unknown") == 0


def test_spent_time_adds_up_and_is_unknown_until_then(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    file = task_file().with_results("znver4", (), 32)
    assert file.spent_on("znver4") is None
    write_task_file(path, file)
    assert "spent" not in path.read_text()
    assert read_task_file(path) == file
    assert file.with_results("znver4", (), 8, 1.5).spent == {}  # it would be the price of 40 candidates
    file = task_file().with_results("znver4", (), 8, 1.5).with_results("znver4", (), 8, 2.25)
    file = file.with_results("cortex-a72", (), 1)
    assert file.spent == {"znver4": 3.75}
    assert list(file.searched.items()) == [("cortex-a72", 1), ("znver4", 16)]
    write_task_file(path, file)
    assert list(json.loads(path.read_text())) == sorted(json.loads(path.read_text()))
    assert read_task_file(path) == file


def test_a_second_careful_timing_replaces_a_lucky_first() -> None:
    file = task_file(record(1, 1e-6), record(2, 1.2e-6))
    again = file.with_times((record(1, 3e-6),))
    assert [(r.trace, r.seconds) for r in again.records] == [(trace(2), 1.2e-6), (trace(1), 3e-6)]


def test_no_file_is_no_error(tmp_path: Path) -> None:
    assert read_task_file(tmp_path / "absent.json") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "damaged record file (JSONDecodeError"),
        ("[1, 2]", "damaged record file (TypeError"),
        ('{"format": 1}', "damaged record file (KeyError: 'target')"),
        ('{"format": 99}', "record format 99, this tvmbuild reads 1"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(TvmbuildError) as caught:
        read_task_file(path)
    assert str(path) in caught.value.message
    assert said in caught.value.message
    assert caught.value.hint


def edited(**changes: object) -> str:
    data = {
        "exhausted": [],
        "format": 1,
        "key": "00ff" * 4,
        "name": "conv2d",
        "records": [],
        "searched": {},
        "target": TARGET.to_json(),
        "tvm": "0.27.0",
        "workload": "{}",
    }
    return json.dumps(data | changes)


def with_record(**changes: object) -> str:
    data = {"measured_on": "znver4", "seconds": 1e-6, "threads": 2, "trace": json.loads(trace(0)), "tvm": "0.27.0"}
    return edited(records=[data | changes])


def with_trace(instruction: object = None, decision: object = None) -> str:
    good = ["GetSBlock", [], ["C", "main"], ["b0"]]
    return with_record(trace={"instructions": [good, instruction or good], "decisions": [decision] if decision else []})


NESTED = "[" * 100_000 + "]" * 100_000


def test_the_files_that_the_hostile_ones_are_made_from_are_good(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    layout = ["TransformLayout", ["b0"], [0, 1, "map", None, True], []]
    for text in (edited(), with_record(), with_trace(), with_trace(instruction=layout, decision=[1, [2, 4]])):
        path.write_text(text)
        assert read_task_file(path) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NESTED, "RecursionError"),
        (edited().replace('"workload": "{}"', f'"workload": {NESTED}'), "RecursionError"),
        (edited(target=[]), "TypeError"),
        (edited(target={}), "KeyError: 'kind'"),
        (edited(searched={"znver4": float("inf")}), "OverflowError"),
        (edited(searched={"znver4": 10**400}), "a count of candidates is 1000"),
        (edited(searched={"znver4": -1}), "a count of candidates is -1"),
        (edited(settled={"\ud800": 1}), "UnicodeEncodeError"),
        (edited(target={"kind": "llvm"}), "KeyError: 'attributes'"),
        (edited(target={"kind": "llvm", "attributes": [], "host": {}}), "AttributeError"),
        (edited(target={"kind": "llvm", "attributes": {}, "host": "llvm"}), "AttributeError"),
        (edited(target={"kind": "llvm", "attributes": {"mcpu": {}}, "host": {}}), "not scalars and lists of scalars"),
        (edited(target={"kind": "llvm", "attributes": {}, "host": {"a": [[1]]}}), "not scalars and lists of scalars"),
        (edited(key="/etc/passwd"), "the key '/etc/passwd' is not 16 hex digits"),
        (edited(key="../../../00ff"), "the key '../../../00ff' is not 16 hex digits"),
        (edited(key="00FF" * 4), "is not 16 hex digits"),
        (edited(key="00ff" * 4 + "\n"), "is not 16 hex digits"),
        (edited(key=1234567812345678), "key is not a text"),
        (edited(name=["conv2d"]), "name is not a text"),
        (edited(tvm=27), "tvm is not a text"),
        (with_record(measured_on=None), "measured_on is not a text"),
        (edited(searched=[]), "AttributeError"),
        (edited(spent=[1.0]), "AttributeError"),
        (edited(spent={"znver4": "1"}), "spent is 1 seconds"),
        (edited(spent={"znver4": -1}), "spent is -1 seconds"),
        (edited(spent={"znver4": float("nan")}), "spent is nan seconds"),
        (edited(records={"a": 1}), "TypeError"),
        (with_record(seconds=float("nan")), "a record's time is nan seconds"),
        (with_record(seconds=float("inf")), "a record's time is inf seconds"),
        (with_record(seconds=-1e-6), "a record's time is -1e-06 seconds"),
        (with_record(seconds=0), "a record's time is 0.0 seconds"),
        (with_record(seconds=10**400), "OverflowError"),
        (with_record(threads=float("inf")), "OverflowError"),
        (with_record(trace=[]), "a trace is not an object of instructions and decisions"),
        (with_record(trace={"decisions": []}), "a trace is not an object of instructions and decisions"),
        (with_record(trace={"decisions": [], "instructions": {}}), "instructions or decisions are not a list"),
        (with_trace(instruction=["Fuse", [], []]), "instruction 1 of a trace is not"),
        (with_trace(instruction=[7, [], [], []]), "instruction 1 of a trace is not"),
        (with_trace(instruction=["Fuse", [None], [], []]), "instruction 1 of a trace is not"),
        (with_trace(instruction=["GetSBlock", [], [None, None], ["b0"]]), "instruction 1 of a trace is not"),
        (with_trace(instruction=["Fuse", [], [], [0]]), "instruction 1 of a trace is not"),
        (with_trace(decision=[2, 1]), "a decision of a trace is not"),
        (with_trace(decision=[-1, 1]), "a decision of a trace is not"),
        (with_trace(decision=["0", 1]), "a decision of a trace is not"),
        (with_trace(decision=[10**30, 1]), "a decision of a trace is not"),
        (with_trace(instruction=["\ud800", [], [], []]), "UnicodeEncodeError"),
        ("\udcff", "UnicodeDecodeError"),
    ],
)
def test_a_hostile_file_is_an_error_that_names_it(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(TvmbuildError) as caught:
        read_task_file(path)
    assert str(path) in caught.value.message
    assert said in caught.value.message


def test_a_file_that_is_called_by_another_tasks_key_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / f"{'ee11' * 4}.json"
    write_task_file(path, task_file(record(1, 2e-6)))
    with pytest.raises(store.DamagedRecordsError, match=f"it holds the Task {'00ff' * 4}"):
        read_task_file(path)


def test_a_folder_in_a_records_place_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(TvmbuildError, match=f"{tmp_path}: Is a directory"):
        read_task_file(tmp_path)


def test_a_file_that_does_not_change_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    write_task_file(path, task_file(record(1, 2e-6)))
    fresh = read_task_file(path)
    assert read_task_file(path) is not fresh  # it has just changed: another change could look like this one
    monkeypatch.setattr(files, "_RACY_NS", 0)
    kept = read_task_file(path)
    assert kept == fresh
    assert read_task_file(path) is kept
    write_task_file(path, task_file(record(1, 3e-6)))
    assert read_task_file(path) == task_file(record(1, 3e-6))
