"""Wrong record files on the whole path, file → read → elect → replay: no crash, and no unchecked data is used."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_records import edit_bytes, edit_fields, edit_trace

from tvmbuild.base.attributes import freeze_attributes
from tvmbuild.base.files import canonical_json
from tvmbuild.cli.records.list import list_rows
from tvmbuild.cli.records.show import describe
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.merge import merge_files
from tvmbuild.records.quarantine import list_faults
from tvmbuild.records.selection import elect, read_applicable
from tvmbuild.records.store import read_task_file, record_path, write_task_file
from tvmbuild.records.stored import read_stored
from tvmbuild.records.task_file import Record, ResolvedTarget, TaskFile
from tvmbuild.replay.verification import Subject, keep_good, verify_records


@pytest.fixture(scope="module")
def shipped(project_root: Path) -> list[TaskFile]:
    paths = sorted((project_root / "records" / "x86-64-v3").glob("????????????????.json"))
    files = [read_task_file(path) for path in paths]
    return [file for file in files if file is not None and file.records]


def resolved(file: TaskFile) -> ResolvedTarget:
    value = json.loads(file.target)
    return ResolvedTarget(value["kind"], freeze_attributes(value["attributes"]), freeze_attributes(value["host"]))


def test_no_edit_of_a_files_bytes_is_a_crash(shipped: list[TaskFile], tmp_path: Path) -> None:
    rng = random.Random(3)  # noqa: S311 - the same edits every time
    path, again = tmp_path / "x.json", tmp_path / "y.json"
    ends: Counter[str] = Counter()
    for _ in range(600):
        write_task_file(path, rng.choice(shipped[:20]))
        path.write_bytes(edit_bytes(path.read_bytes(), rng))
        try:
            file = read_task_file(path)
        except TvmbuildError:
            ends["refused"] += 1
            continue
        assert file is not None
        write_task_file(again, file)  # whatever is accepted can be written
        assert read_task_file(again) == file
        ends["read"] += 1
    assert (ends["refused"] > 50, ends["read"] > 50) == (True, True), ends


def test_no_edit_of_a_files_values_is_a_crash_of_a_command(shipped: list[TaskFile], tmp_path: Path) -> None:
    rng = random.Random(11)  # noqa: S311 - the same edits every time
    path = tmp_path / "records" / "x86-64-v3" / f"{shipped[0].key}.json"
    write_task_file(path, shipped[0])
    text = path.read_text()
    ends: Counter[str] = Counter()
    for _ in range(600):
        path.write_text(json.dumps(edit_fields(text, rng)))
        try:
            stored = read_stored(path.parent)
        except TvmbuildError as error:
            assert "record format" in error.message  # noqa: PT017 - that of a newer tvmbuild alone ends a command
            continue
        ends.update("read" if each.file else "refused" for each in stored)
        shown = [*describe("x86-64-v3", stored[0])]
        shown += [cell for row in list_rows(stored) for cell in row]
        assert all(isinstance(each, str) for each in shown)
        for each in stored:
            if each.file is not None:
                merge_files(shipped[0], replace(each.file, target=shipped[0].target))
    assert (ends["refused"] > 50, ends["read"] > 50) == (True, True), ends


def put_edited(folder: Path, file: TaskFile, rng: random.Random) -> bool:
    """Write the file with a hostile record that claims to be the fastest; return whether a reader accepts it."""
    trace = canonical_json(edit_trace(file.records[0].trace, rng))
    hostile = Record(trace, 1e-12, file.records[0].measured_on, 1, "0.27.0")
    path = record_path(folder, file.key)
    try:
        write_task_file(path, replace(file, records=(hostile, *file.records[:2])))
        return read_task_file(path) is not None
    except (TvmbuildError, TypeError, KeyError):  # the writer needs the form too
        path.unlink(missing_ok=True)
        return False


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.nights(2)
def test_no_edited_trace_crashes_or_is_used_unchecked(shipped: list[TaskFile], tmp_path: Path) -> None:
    rng = random.Random(5)  # noqa: S311 - the same edits every time
    folder, target = tmp_path / "records" / "x86-64-v3", resolved(shipped[0])
    reasons: Counter[str] = Counter()
    for _ in range(4):
        for file in shipped:
            while not put_edited(folder, file, rng):
                pass
        for _ in range(3):  # the hostile winner, then the next
            usable = {file.key: read_applicable(folder, file.key, target) for file in shipped}
            subjects = [
                Subject(file, (winner,), next(known.workload for known in shipped if known.key == key))
                for key, file in usable.items()
                if file is not None and (winner := elect(file, None)) is not None
            ]
            for faults in verify_records(folder, subjects).values():
                reasons.update("crash" if "TVM crashed" in fault.reason else "refused" for fault in faults)
        for key, kept in usable.items():
            assert kept is not None, key
            winner = elect(kept, None)
            assert winner is not None
            assert keep_good(folder, kept, [winner]) == (winner,)
    assert reasons["refused"] > 150
    assert reasons["crash"] > 0  # otherwise the isolation was not tested
    assert any(list_faults(folder, file.key, shipped[0].target) for file in shipped)


@pytest.mark.compiler
def test_a_hostile_workload_is_a_reason_and_no_crash(shipped: list[TaskFile], tmp_path: Path) -> None:
    rng = random.Random(7)  # noqa: S311 - the same edits every time
    folder = tmp_path / "records" / "x86-64-v3"
    subjects = []
    for file in shipped:
        edited = replace(file, workload=edit_bytes(file.workload.encode(), rng).decode(errors="replace"))
        write_task_file(record_path(folder, file.key), edited)
        subjects.append(Subject(edited, (), file.workload))
    found = verify_records(folder, subjects)
    assert len(found) > len(shipped) // 2
    for key, (fault,) in found.items():
        assert fault.of == "file"
        assert read_applicable(folder, key, resolved(shipped[0])) is None
