"""A record file in the middle of a merge: nothing is searched, nothing is overwritten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.records.choices import Choice, Choices, choices_path, describe_graph, read_choices, write_choices
from tvmbuild.records.conflicts import ConflictedRecordsError
from tvmbuild.records.store import DamagedRecordsError, read_task_file
from tvmbuild.records.task_file import ResolvedTarget


def find_record(project_root: Path) -> Path:
    return next(iter(sorted(project_root.glob("tvmbuild/templates/project/records/*/????????????????.json"))))


def test_both_sides_of_a_merge(project_root: Path, tmp_path: Path) -> None:
    record = Path(shutil.copy(find_record(project_root), tmp_path))
    ours = record.read_text()
    record.write_text(f"<<<<<<< HEAD\n{ours}=======\n{ours}>>>>>>> branch\n")
    with pytest.raises(ConflictedRecordsError) as caught:
        read_task_file(record)
    assert caught.value.message == f"{record}: git has left both sides of a merge in it"
    assert f"`git checkout --merge -- {record}`" in (caught.value.hint or "")
    assert not isinstance(caught.value, DamagedRecordsError)  # which would count as absent


def test_both_sides_of_a_merge_of_choices(tmp_path: Path) -> None:
    graph = describe_graph([("a" * 16, 1)], {"1x8x8x8 to 8": "direct"})
    target = ResolvedTarget("llvm", FrozenMap({"mcpu": "znver4"}))
    write_choices(tmp_path, graph, target, Choices({"1x8x8x8 to 8": Choice("direct", "znver4")}))
    path = choices_path(tmp_path, graph)
    ours = path.read_text()
    path.write_text(f"<<<<<<< HEAD\n{ours}=======\n{ours}>>>>>>> branch\n")
    with pytest.raises(ConflictedRecordsError) as caught:
        read_choices(tmp_path, graph, target)
    assert caught.value.message == f"{path}: git has left both sides of a merge in it"
    assert f"`git checkout --ours -- {path}`" in (caught.value.hint or "")
