"""The journal of an unfinished search: every written line is read, whatever happened to the last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.errors import TvmbuildError
from tvmbuild.records.journal import Entry, absorb, append_entry, digest_target, read_entries
from tvmbuild.records.task_file import Record, TaskFile

TRACE = '{"decisions":[],"instructions":[]}'
FAST = Record(TRACE, 1e-6, "znver4", 2, "0.27.0")
EMPTY = TaskFile("00ff" * 4, "conv2d", "{}", "{}", "0.27.0")
HERE = digest_target(EMPTY)
ENTRIES = (Entry("znver4", 1, FAST, HERE), Entry("znver4", 2, None, HERE), Entry("znver4", 3, None, HERE))


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal" / "pc" / "00ff.jsonl"
    assert read_entries(path) == ()
    for entry in ENTRIES:
        append_entry(path, entry)
    assert read_entries(path) == ENTRIES


@pytest.mark.parametrize(
    "end", ['{"device_class": "znv', "[]", "\0\0\0", '{"device_class":"a","measured":1,"record":{}}']
)
def test_a_line_cut_short_costs_itself_only(tmp_path: Path, end: str) -> None:
    path = tmp_path / "journal.jsonl"
    append_entry(path, ENTRIES[0])
    with path.open("a") as file:
        file.write(end)
    assert read_entries(path) == ENTRIES[:1]
    append_entry(path, ENTRIES[1])
    assert read_entries(path) == ENTRIES[:2]


def test_absorbing_counts_each_candidate_once() -> None:
    once = absorb(EMPTY, ENTRIES)
    assert once.records == (FAST,)
    assert once.searched == {"znver4": 3}
    assert absorb(once, ENTRIES) == once
    assert absorb(EMPTY.with_results("znver4", (), 2), ENTRIES).searched == {"znver4": 3}
    both = absorb(EMPTY.with_results("skylake", (), 9), ENTRIES).searched
    assert list(both.items()) == [("skylake", 9), ("znver4", 3)]


def test_what_was_measured_for_other_attributes_is_left_out() -> None:
    other = replace(EMPTY, target='{"kind":"llvm"}')
    assert absorb(other, ENTRIES) == other


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TvmbuildError, match=r"a measurement cannot be written to .*file"):
        append_entry(tmp_path / "file" / "journal.jsonl", ENTRIES[0])
