"""A run reads each record file once, and again where another process has written it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.records import store
from tvmbuild.records.reader import RecordReader
from tvmbuild.records.store import DamagedRecordsError, write_task_file
from tvmbuild.records.task_file import TaskFile

FILE = TaskFile("0123456789abcdef", "matmul", "{}", '{"attributes":{},"host":{},"kind":"llvm"}', "0.27.0")


@pytest.fixture
def read_paths(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read, in order."""
    found: list[Path] = []
    read = store._read

    def note(path: Path) -> TaskFile:
        found.append(path)
        return read(path)

    monkeypatch.setattr(store, "_read", note)
    return found


def test_a_file_is_read_again_only_where_another_has_written_it(tmp_path: Path, read_paths: list[Path]) -> None:
    path, reader = tmp_path / f"{FILE.key}.json", RecordReader()
    assert reader.read(path) is None
    write_task_file(path, FILE)
    assert [reader.read(path) for _ in range(3)] == [FILE] * 3
    assert read_paths == [path]
    ours = replace(FILE, name="ours")
    reader.write(path, ours)
    assert (reader.read(path), store.read_task_file(path)) == (ours, ours)
    read_paths.clear()
    theirs = replace(FILE, name="theirs")
    write_task_file(path, theirs)
    assert (reader.read(path), reader.read(path)) == (theirs, theirs)
    assert read_paths == [path]
    path.unlink()
    assert reader.read(path) is None


def test_what_is_damaged_is_said_each_time_and_read_once(tmp_path: Path, read_paths: list[Path]) -> None:
    path, reader = tmp_path / f"{FILE.key}.json", RecordReader()
    path.write_text("{")
    for _ in range(2):
        with pytest.raises(DamagedRecordsError, match="damaged record file"):
            reader.read(path)
    assert read_paths == [path]
    write_task_file(path, FILE)
    assert reader.read(path) == FILE
