"""Two branches tuned separately, merged by a real git with the driver: the union, and no conflict."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.files import canonical_json
from tvmbuild.cli.records.merge_driver import ATTRIBUTES
from tvmbuild.records.store import read_task_file, record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile

SHARED, ONLY_OURS, ONLY_THEIRS = "a" * 16, "b" * 16, "c" * 16
TARGET = '{"attributes":{"num-cores":2},"host":{},"kind":"llvm"}'
OTHER = '{"attributes":{"num-cores":4},"host":{},"kind":"llvm"}'


def task_file(key: str, *times: tuple[int, float, str], searched: int = 32, target: str = TARGET) -> TaskFile:
    records = tuple(
        Record(
            canonical_json({"decisions": [], "instructions": [["Seed", [], [number], []]]}), seconds, where, 2, "0.27"
        )
        for number, seconds, where in times
    )
    empty = TaskFile(key, "conv2d", "{}", target, "0.27")
    return empty.with_results("znver4", records, searched, float(searched))


class Clone:
    """A project under git, in which two branches have tuned."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "records" / "pc"
        (root / "models.yaml").write_text("models: {}\n")
        self.git("init", "-q", "-b", "ours")
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@example.org")

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # It must not work through a tvmbuild in PATH: the installed driver is the right one.
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        return subprocess.run(
            ["git", *arguments], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )

    def commit(self, *files: TaskFile) -> None:
        for file in files:
            write_task_file(record_path(self.folder, file.key), file)
        self.git("add", "--all")
        assert self.git("commit", "-q", "-m", "tuned").returncode == 0

    def install(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "tvmbuild", "records", "merge-driver", "--install"],
            cwd=self.folder if self.folder.exists() else self.root,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ATTRIBUTES in done.stdout or "already" in done.stdout

    def tune_both(self, ours: tuple[TaskFile, ...], theirs: tuple[TaskFile, ...]) -> None:
        self.git("branch", "theirs")
        self.commit(*ours)
        self.git("checkout", "-q", "theirs")
        self.commit(*theirs)
        self.git("checkout", "-q", "ours")

    def read(self, key: str) -> TaskFile:
        file = read_task_file(record_path(self.folder, key))
        assert file is not None
        return file


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    assert shutil.which("git")
    return Clone(tmp_path)


def test_two_branches_that_tuned_the_same_tasks_merge_to_the_union(clone: Clone) -> None:
    clone.install()
    clone.commit(task_file(SHARED, (1, 5e-6, "znver4")))
    faster = task_file(SHARED, (1, 5e-6, "znver4"), (2, 2e-6, "znver4"), (3, 9e-6, "znver4"), searched=64)
    elsewhere = task_file(SHARED, (1, 4e-6, "znver4"), (4, 3e-6, "znver4"), (5, 1e-3, "cortex-a72"), searched=96)
    clone.tune_both(
        (faster, task_file(ONLY_OURS, (1, 1e-6, "znver4"))), (elsewhere, task_file(ONLY_THEIRS, (1, 7e-6, "znver4")))
    )
    done = clone.git("merge", "-q", "-m", "both", "theirs")
    assert (done.returncode, done.stderr) == (0, "")
    assert "CONFLICT" not in done.stdout
    assert clone.git("status", "--porcelain").stdout == ""
    merged = clone.read(SHARED)
    assert [(record.measured_on, record.seconds) for record in merged.records] == [
        ("cortex-a72", 1e-3),
        ("znver4", 2e-6),
        ("znver4", 3e-6),
        ("znver4", 4e-6),
        ("znver4", 9e-6),
    ]
    assert merged.searched == {"znver4": 96}
    assert merged.spent == {"znver4": 96.0}
    assert clone.read(ONLY_OURS).records
    assert clone.read(ONLY_THEIRS).records


def test_both_branches_may_add_the_same_task(clone: Clone) -> None:
    clone.install()
    clone.commit(task_file(ONLY_OURS, (1, 1e-6, "znver4")))
    clone.tune_both((task_file(SHARED, (1, 5e-6, "znver4")),), (task_file(SHARED, (2, 4e-6, "znver4")),))
    assert clone.git("merge", "-q", "-m", "both", "theirs").returncode == 0
    assert [record.seconds for record in clone.read(SHARED).records] == [4e-6, 5e-6]


def test_the_branch_that_changed_the_target_wins_and_two_changes_conflict(clone: Clone) -> None:
    clone.install()
    clone.commit(task_file(SHARED, (1, 5e-6, "znver4")))
    moved = task_file(SHARED, (2, 9e-6, "znver4"), target=OTHER)
    clone.tune_both((task_file(SHARED, (3, 1e-6, "znver4")),), (moved,))
    assert clone.git("merge", "-q", "-m", "both", "theirs").returncode == 0
    assert clone.read(SHARED) == moved

    clone.git("reset", "-q", "--hard", "ours~1")
    third = replace(moved, target=OTHER.replace("4", "8"))
    clone.commit(third)
    done = clone.git("merge", "-m", "both", "theirs")
    assert done.returncode == 1
    assert f"records/pc/{SHARED}.json: the records of Task {SHARED} (conv2d) were made for different" in done.stderr
    assert clone.read(SHARED) == third  # no conflict markers: the file can still be read


@pytest.mark.parametrize("dropping", ["ours", "theirs"])
def test_a_task_that_one_branch_drops_for_another_is_not_mixed_into_it(clone: Clone, dropping: str) -> None:
    clone.install()
    # They are so similar that git takes one for the other, renamed.
    many = tuple((number, 1e-6 * (number + 1), "znver4") for number in range(5))
    clone.commit(task_file(SHARED, *many))
    clone.git("branch", "theirs")
    more = task_file(SHARED, *many, (9, 1e-9, "znver4"), searched=64)
    for branch in ("ours", "theirs"):
        clone.git("checkout", "-q", branch)
        if branch == dropping:
            record_path(clone.folder, SHARED).unlink()
        clone.commit(task_file(ONLY_OURS, *many) if branch == dropping else more)
    clone.git("checkout", "-q", "ours")
    done = clone.git("merge", "-q", "-m", "both", "theirs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"records of Task {SHARED}, which one branch dropped, are left out" in done.stderr
    assert clone.read(ONLY_OURS) == task_file(ONLY_OURS, *many)
    assert not record_path(clone.folder, SHARED).exists()


def test_without_the_driver_git_would_conflict(clone: Clone) -> None:
    clone.commit(task_file(SHARED, (1, 5e-6, "znver4")))
    clone.tune_both((task_file(SHARED, (2, 2e-6, "znver4")),), (task_file(SHARED, (3, 3e-6, "znver4")),))
    assert clone.git("merge", "-q", "-m", "both", "theirs").returncode == 1


def test_installing_twice_changes_nothing_and_keeps_other_lines(clone: Clone) -> None:
    path = clone.root / ".gitattributes"
    path.write_text("*.onnx binary")
    clone.install()
    first = path.read_text()
    assert first == f"*.onnx binary\n{ATTRIBUTES}\n"
    clone.install()
    assert path.read_text() == first


def test_the_shipped_attributes_cover_the_records_and_not_the_locks(project_root: Path) -> None:
    def attribute(path: str) -> str:
        command = ["git", "check-attr", "merge", path]
        return subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=True).stdout.split()[-1]

    for folder in ("records/x86-64-v3", "tvmbuild/templates/project/records/x86-64-v3"):
        assert attribute(f"{folder}/{SHARED}.json") == "tvmbuild-records"
        assert attribute(f"{folder}/target.lock.json") == "unspecified"
        assert attribute(f"{folder}/choices/{SHARED}.json") == "unspecified"
