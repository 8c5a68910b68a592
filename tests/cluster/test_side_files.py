"""Files on their way to a worker and back, tested without a worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import QuantizeStep, Settings, Step, TuneStep
from tvmbuild.cluster.parcel import Outcome, Parcel, compress, decompress, name_of, unpack
from tvmbuild.cluster.side_files import compare, read_sent, take_home
from tvmbuild.records.store import read_task_file, record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile

OPTIONS = TuneStep("v3", "llvm", FrozenMap({"mcpu": "x86-64-v3"}), FrozenMap(), None, LocalDevice(), TuneOptions())
TARGET = '{"attributes":{"mcpu":"x86-64-v3"},"host":{},"kind":"llvm"}'
KEY = "a" * 16


def make_step(root: Path, mode: str = "missing") -> Step[TuneStep]:
    settings = Settings(tune="never" if mode == "never" else "missing")
    return Step("tune", "net@v3", OPTIONS, root=root, settings=settings)


def make_file(*seconds: float) -> TaskFile:
    records = [
        Record(f'{{"decisions":[],"instructions":[["Seed",[],[{each}],[]]]}}', each, "zen", 1, "0.27")
        for each in seconds
    ]
    return TaskFile(KEY, "conv", "{}", TARGET, "0.27").with_results("zen", tuple(records), len(records))


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.mark.parametrize(("mode", "others"), [("missing", {"records/v2/b.json"}), ("never", set[str]())])
def test_what_travels(tmp_path: Path, mode: str, others: set[str]) -> None:
    sent = {"records/v3/a.json", "records/v3/choices/c.json", "build/verified/v3/a.json", "build/journal/v3/a.jsonl"}
    for name in (*sent, "records/v2/b.json", "build/verified/v2/b.json", "records/v3/.a.json.x.tmp", "net.onnx"):
        put(tmp_path, name, name)
    found = read_sent(make_step(tmp_path, mode))
    assert found == {name: name.encode() for name in sent | others}
    assert decompress(compress(found)) == found


def test_changes_come_home(tmp_path: Path) -> None:
    here, there = make_step(tmp_path / "here"), make_step(tmp_path / "there")
    for name in ("build/journal/v3/a.jsonl", "build/verified/v3/a.json", "build/quarantine/v3/a.json"):
        put(here.root, name, "before")
    sent = read_sent(here)
    put(there.root, "build/verified/v3/a.json", "after")
    put(there.root, "build/quarantine/v3/a.json", "before")
    put(there.root, "records/v3/choices/c.json", "new")
    changed, removed = compare(there, sent)
    assert removed == ("build/journal/v3/a.jsonl",)
    take_home(here, sent, Outcome(changed=changed, removed=removed))
    assert read_sent(here) == {
        "build/quarantine/v3/a.json": b"before",
        "build/verified/v3/a.json": b"after",
        "records/v3/choices/c.json": b"new",
    }


def test_records_of_two_machines_are_united(tmp_path: Path) -> None:
    home = make_step(tmp_path / "home")
    path = record_path(home.root / "records/v3", KEY)
    write_task_file(path, make_file(3e-6))
    sent = read_sent(home)
    outcomes = []
    for name, seconds in (("first", 1e-6), ("second", 2e-6)):
        there = make_step(tmp_path / name)
        write_task_file(record_path(there.root / "records/v3", KEY), make_file(3e-6, seconds))
        outcomes.append(Outcome(changed=compare(there, sent)[0]))
    for outcome in outcomes:
        take_home(home, sent, outcome)
    united = read_task_file(path)
    assert united is not None
    assert [record.seconds for record in united.records] == [1e-6, 2e-6, 3e-6]


def test_a_file_that_was_damaged_meanwhile_is_no_side(tmp_path: Path) -> None:
    home, there = make_step(tmp_path / "home"), make_step(tmp_path / "there")
    write_task_file(record_path(there.root / "records/v3", KEY), make_file(1e-6))
    put(home.root, f"records/v3/{KEY}.json", "{")
    take_home(home, {}, Outcome(changed=compare(there, {})[0]))
    assert read_task_file(record_path(home.root / "records/v3", KEY)) == make_file(1e-6)


def test_files_outside_the_project_lie_outside_there_too(tmp_path: Path) -> None:
    root = tmp_path / "here/project"
    inputs = FrozenMap({"model": root / "build/model.onnx", "labels": tmp_path / "labels.txt"})
    step = replace(make_step(root), inputs=inputs, outputs=FrozenMap({"info": root / "build/info.json"}))
    names = tuple(name_of(path, step) for path in inputs.values())
    assert names == ("build/model.onnx", "../../labels.txt")
    moved = unpack(Parcel(step, names), [b"model", b"labels"], tmp_path / "there")
    assert moved.root.is_relative_to(tmp_path / "there")
    assert [moved.input(role).read_bytes() for role in ("model", "labels")] == [b"model", b"labels"]
    assert moved.input("labels").is_relative_to(tmp_path / "there")
    assert moved.output("info") == moved.root / "build/info.json"


def test_a_choice_of_operators_in_floats_comes_home(tmp_path: Path) -> None:
    asked = Quantize(Calibration("inputs", ("seen.npz",)), keep="auto")
    step = Step("quantize", "net", QuantizeStep("net", asked, None), root=tmp_path)
    name = "records/kept/int8/0123456789abcdef.json"
    put(tmp_path, name, "old")
    sent = read_sent(step)
    assert sent == {name: b"old"}
    put(tmp_path, name, "new")
    changed, removed = compare(step, sent)
    put(tmp_path, name, "old")
    take_home(step, sent, Outcome(changed=changed, removed=removed))
    assert (tmp_path / name).read_text() == "new"
    plain = Step("quantize", "net", QuantizeStep("net", replace(asked, keep=None), None), root=tmp_path)
    assert read_sent(plain) == {}
