"""A record file in the middle of a merge: nothing is searched, nothing is overwritten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tvmbuild.records.store import ConflictedRecordsError, DamagedRecordsError, read_task_file


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
