from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvmbuild.doit_adapter.state import StepState

VALUES = {"tvmbuild": {"fingerprint": {"option.a": "1"}}}


def _finish(state: StepState, task: str) -> None:
    """Set the keys that doit sets after a success, in its order."""
    state.set(task, "_values_:", VALUES)
    state.set(task, "checker:", "MD5Checker")
    state.set(task, "deps:", ())


def test_a_finished_task_is_on_disk_before_doit_ends(tmp_path: Path) -> None:
    folder = tmp_path / "build" / ".state"
    _finish(StepState(str(folder)), "compile:net@v3")
    assert [path.name for path in folder.iterdir()] == ["compile%3Anet@v3.json"]
    assert StepState(str(folder)).get("compile:net@v3", "_values_:") == VALUES


def test_what_a_killed_writer_left_goes_with_the_next_success(tmp_path: Path) -> None:
    folder = tmp_path / "build" / ".state"
    folder.mkdir(parents=True)
    (folder / ".compile%3Anet@v3.json.abc.tmp").touch()
    _finish(StepState(str(folder)), "compile:net@v3")
    assert [path.name for path in folder.iterdir()] == ["compile%3Anet@v3.json"]


def test_a_task_that_has_not_finished_is_not_on_disk(tmp_path: Path) -> None:
    folder = tmp_path / "build" / ".state"
    state = StepState(str(folder))
    state.set("compile:net@v3", "_values_:", VALUES)
    assert not folder.exists()


def test_groups_leave_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "build" / ".state"
    state = StepState(str(folder))
    state.set("compile", "_values_:", {})
    state.set("compile", "checker:", "MD5Checker")
    state.set("compile", "deps:", ())
    state.dump()
    assert not folder.exists()


def test_ignore_is_written_by_dump(tmp_path: Path) -> None:
    folder = tmp_path / "build" / ".state"
    state = StepState(str(folder))
    state.set("compile:net@v3", "ignore:", "1")
    state.dump()
    assert StepState(str(folder)).get("compile:net@v3", "ignore:") == "1"


@pytest.mark.parametrize("damage", ["", "{", "[1]", '"text"'])
def test_a_damaged_file_is_as_if_absent(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "build" / ".state"
    state = StepState(str(folder))
    _finish(state, "a:b")
    next(folder.iterdir()).write_text(damage)
    fresh = StepState(str(folder))
    assert not fresh.in_("a:b")
    assert fresh.get("a:b", "_values_:") is None


def test_remove_forgets_and_remove_all_forgets_all(tmp_path: Path) -> None:
    folder = tmp_path / "build" / ".state"
    state = StepState(str(folder))
    for task in ("a:x", "a:y", "a:z"):
        _finish(state, task)
    state.remove("a:x")
    assert not state.in_("a:x")
    assert sorted(path.name for path in folder.iterdir()) == ["a%3Ay.json", "a%3Az.json"]
    StepState(str(folder)).remove_all()
    assert list(folder.iterdir()) == []


def test_a_run_keeps_what_did_not_fail_itself(tmp_path: Path) -> None:
    folder = tmp_path / "build" / ".state"
    state = StepState(str(folder))
    _finish(state, "a:unmet")
    _finish(state, "a:failed")
    state.keeps = lambda task: task == "a:unmet"
    state.remove("a:unmet")
    state.remove("a:failed")
    assert StepState(str(folder)).in_("a:unmet")
    assert not StepState(str(folder)).in_("a:failed")


def test_names_cannot_leave_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "build" / ".state"
    _finish(StepState(str(folder)), "../../outside/..:x")
    assert [path.parent for path in tmp_path.rglob("*.json")] == [folder]


def test_the_file_is_readable_json(tmp_path: Path) -> None:
    folder = tmp_path / "build" / ".state"
    _finish(StepState(str(folder)), "a:b")
    assert json.loads((folder / "a%3Ab.json").read_text())["_values_:"] == VALUES
