"""A run reads each record file once, and again after another process has written it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base import files
from tvmbuild.records import reader as reader_module
from tvmbuild.records import store
from tvmbuild.records.reader import RecordReader
from tvmbuild.records.store import DamagedRecordsError, write_task_file
from tvmbuild.records.task_file import TaskFile

FILE = TaskFile("0123456789abcdef", "matmul", "{}", '{"attributes":{},"host":{},"kind":"llvm"}', "0.27.0")


@pytest.fixture
def read_paths(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read, in order; all of them are old enough to be told apart by their times."""
    found: list[Path] = []
    read = store._read

    def note(path: Path) -> TaskFile:
        found.append(path)
        return read(path)

    monkeypatch.setattr(store, "_read", note)
    monkeypatch.setattr(files, "_RACY_NS", 0)
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


def test_what_changed_just_now_is_not_kept(tmp_path: Path) -> None:
    """Two changes within one tick of the clock, of one size and in place, would look like one."""
    path, reader = tmp_path / f"{FILE.key}.json", RecordReader()
    write_task_file(path, FILE)
    assert reader.read(path) == FILE
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"matmul", b"conv2d"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert reader.read(path) == replace(FILE, name="conv2d")


def test_what_another_process_writes_right_after_us_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_paths: list[Path]
) -> None:
    path, reader = tmp_path / f"{FILE.key}.json", RecordReader()
    theirs = replace(FILE, name="theirs")
    write = write_task_file

    def write_and_be_followed(where: Path, file: TaskFile) -> tuple[int, ...]:
        published = write(where, file)
        write(where, theirs)
        return published

    monkeypatch.setattr(reader_module, "write_task_file", write_and_be_followed)
    reader.write(path, FILE)
    assert reader.read(path) == theirs
    assert read_paths == [path]
