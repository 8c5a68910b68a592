"""Records are checked on the workload that they were made for, whatever block names an equal Task uses."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.attributes import freeze_attributes
from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.compiler.tasks import Task
from tvmbuild.records.block_names import list_blocks
from tvmbuild.records.selection import elect_all
from tvmbuild.records.store import read_task_file
from tvmbuild.records.task_file import ResolvedTarget, TaskFile
from tvmbuild.replay.traces import dump_workload, load_workload
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.record_book import RecordBook
from tvmbuild.tuning.start import as_recorded
from tvmbuild.tuning.verify import verify_winners

pytestmark = pytest.mark.compiler


@pytest.fixture
def shipped(project_root: Path, tmp_path: Path) -> tuple[TaskFile, str]:
    """A shipped record file, copied to a project's records, and a block that its traces find."""
    for path in sorted(project_root.glob("tvmbuild/templates/project/records/*/????????????????.json")):
        file = read_task_file(path)
        assert file is not None
        instructions = json.loads(file.records[0].trace)["instructions"] if file.records else []
        found = {each[2][0] for each in instructions if each[0] == "GetSBlock"} & set(list_blocks(file.workload))
        if found - {"root"}:
            folder = Layout(tmp_path).records("pc")
            folder.mkdir(parents=True)
            shutil.copy(path, folder)
            return file, min(found - {"root"})
    raise AssertionError("no shipped trace finds a block of its workload")


def test_an_equal_task_whose_blocks_have_other_names_uses_them(shipped: tuple[TaskFile, str], tmp_path: Path) -> None:
    file, block = shipped
    other = load_workload(file.workload.replace(json.dumps(block), json.dumps("other_name")))
    task = Task(file.key, file.name, other, 1)
    assert "other_name" in list_blocks(dump_workload(other))
    stated = json.loads(file.target)
    attributes = freeze_attributes(stated["attributes"])
    target = ResolvedTarget(stated["kind"], attributes)
    measured_on = file.records[0].measured_on
    job = Job("net", "pc", target, LocalDevice(), TuneOptions(), Layout(tmp_path), measured_on)
    book = RecordBook(job)
    files = verify_winners(job, book, (task,))
    assert elect_all(files, measured_on).traces.keys() == {task.key}
    assert len(files[task.key].records) == len(file.records)

    # A search of it keeps the names of the file.
    assert list_blocks(dump_workload(as_recorded(book, task).mod)) == list_blocks(file.workload)
    assert as_recorded(book, replace(task, mod=load_workload(file.workload))).mod is not other
