"""Ctrl-C and kill -9 in every stage, full and read-only disks: nothing half-written, and the next doit completes."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from doit_project import (
    ON_V3,
    OUTPUTS_ON_V3,
    REAL,
    STEPS_ON_V3,
    DoitProject,
    start_in_step,
    wait_for_line,
    wait_until_gone,
    write_project,
)
from small_disk import mount_disk


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, empty."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def _remove_outputs(project: DoitProject, step: str) -> list[Path]:
    paths = [project.root / "build" / name for name in OUTPUTS_ON_V3[step]]
    for path in paths:
        path.unlink()
    return paths


def _stamp(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("step", "number", "delay"),
    [
        *((step, number, 0.7) for step in STEPS_ON_V3 for number in (signal.SIGINT, signal.SIGKILL)),
        # The kill comes while the step's process starts, which is the same for all stages.
        *(("compile:digits@v3", number, 0.0) for number in (signal.SIGINT, signal.SIGKILL)),
        ("compile:digits@v3", signal.SIGTERM, 0.7),
    ],
)
def test_stopped_step_leaves_nothing_and_runs_again(
    project: DoitProject, step: str, number: signal.Signals, delay: float, temporary: Path
) -> None:
    outputs = _remove_outputs(project, step)
    state = project.root / "build/.state" / f"{quote(step, safe='@+')}.json"
    before = _stamp(state)
    process = start_in_step(project, step, "tune=never", delay=delay)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    output = process.communicate(timeout=60)[0]
    # A fast machine may have ended a run of real stages before; an interrupted run has a summary, too.
    over = "interrupted" not in output and re.search(r"^\d+ done", output, re.MULTILINE) is not None
    assert not (over and project.quick)
    assert over or process.returncode != 0
    assert wait_until_gone(project.root) == []
    # Not by its line: a step is finished when its state is written, and the kill may fall between the two.
    finished = _stamp(state) not in (None, before)
    # It was killed between its outputs and its state; with the bytes that the old state knows it is up to date.
    between = not finished and all(path.exists() for path in outputs)
    if number == signal.SIGINT:
        assert [path.exists() for path in outputs] == [finished] * len(outputs)
        assert project.temporaries() == []
        assert list(temporary.iterdir()) == []
        assert over or "interrupted: nothing half-written is left" in output
        assert over or "Traceback" not in output
    again = project.doit("tune=never")
    assert again.code == 0, again.output
    assert between or (step in again.steps) is not finished
    assert project.temporaries() == []
    assert project.doit("tune=never").steps == []


def test_steps_finished_before_kill_9_are_kept(tmp_path: Path, digits: Path, quick: bool) -> None:
    project = write_project(tmp_path, digits, ON_V3, quick=quick)
    process = project.start("tune=never", QUICK_STAGE_SECONDS="1")
    wait_for_line(process, ".  compile:digits@v3")
    process.kill()
    process.communicate(timeout=60)
    assert wait_until_gone(project.root) == []
    assert project.doit("tune=never").steps == ["compile:digits@v3", "benchmark:digits@v3"]


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_ctrl_c_in_parallel_runs_ends_every_process(project: DoitProject, kind: str) -> None:
    project.edit("models.yaml", "    targets: {include: [v3]}\n", "")
    process = start_in_step(project, "tune:digits@v2", "-n", "2", "-P", kind, "tune=never", delay=0.3)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    assert "interrupted: nothing half-written is left" in output
    assert "Traceback" not in output
    assert wait_until_gone(project.root) == []
    again = project.doit("-n", "2", "-P", kind, "tune=never")
    assert again.code == 0, again.output
    assert again.steps == ["tune:digits@v2", "compile:digits@v2", "benchmark:digits@v2"]


@pytest.mark.parametrize("quick", [pytest.param("real", marks=REAL)], indirect=True, scope="session")
def test_ctrl_c_while_candidates_are_measured_says_that_they_are_kept(project: DoitProject) -> None:
    project.edit("targets.yaml", "trials_per_task: 2", "trials_per_task: 2000")
    process = project.start("tune:digits@v3")
    wait_for_line(process, "   tune:digits@v3  0/2 Tasks; ")
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    assert re.search(r"tune:digits@v3  stopped: .* \d+ candidates, .*; every measurement is kept", output)
    assert wait_until_gone(project.root) == []
    files = [json.loads(path.read_text()) for path in (project.root / "records/v3").glob("*.json")]
    assert sum(sum(file["searched"].values()) for file in files) > 0


def test_second_doit_waits_for_the_first_and_says_for_whom(project: DoitProject) -> None:
    _remove_outputs(project, "compile:digits@v3")
    first = project.start("tune=never", QUICK_STAGE_SECONDS="1")
    wait_for_line(first, ".  compile:digits@v3")
    first.send_signal(signal.SIGSTOP)  # so that it cannot end before the second has looked
    second = project.start("tune=never")
    wait_for_line(second, f"waiting for another doit in this project (process {first.pid})")
    first.send_signal(signal.SIGCONT)
    output, _ = second.communicate(timeout=120)
    assert second.returncode == 0, output
    assert "0 done, 4 up to date" in output
    first.communicate(timeout=60)
    assert first.returncode == 0


def test_input_that_changes_while_its_step_runs_is_noticed(project: DoitProject) -> None:
    _remove_outputs(project, "compile:digits@v3")
    process = project.start("tune=never", QUICK_STAGE_SECONDS="2")
    wait_for_line(process, ".  compile:digits@v3")
    schedule = project.root / "build/cells/digits@v3/schedule.json"
    time.sleep(0.5)
    schedule.write_text(schedule.read_text() + "\n")
    process.communicate(timeout=60)
    info = project.doit("info", "compile:digits@v3").output
    assert "input schedule changed" in info


def test_damaged_state_runs_the_step_again(project: DoitProject) -> None:
    state = next((project.root / "build/.state").glob("compile*"))
    state.write_text(state.read_text()[:100])
    assert project.doit("tune=never").steps == ["compile:digits@v3"]


# ------------------------------------------------------------------ folders that cannot be written


@pytest.fixture
def small_disk(tmp_path: Path, digits: Path, quick: bool) -> Iterator[DoitProject]:
    """A project whose build folder is a disk with little room."""
    project = write_project(tmp_path, digits, ON_V3, quick=quick)
    with mount_disk(project.root / "build", "size=256k"):
        yield project


@pytest.mark.mount
@pytest.mark.parametrize("room", [0, 20_000, 60_000, 120_000])
def test_full_disk_is_said_and_the_next_doit_completes(small_disk: DoitProject, room: int) -> None:
    project = small_disk
    filler = project.root / "build" / "filler"
    _fill(filler, room)
    ran = project.doit("tune=never")
    assert "Traceback" not in ran.output, ran.output
    if ran.code == 0:
        assert room >= 120_000
        return
    assert os.strerror(errno.ENOSPC) in ran.output, ran.output
    assert project.temporaries() == []
    filler.unlink()
    again = project.doit("tune=never")
    assert again.code == 0, again.output
    assert not set(again.steps) & set(ran.steps), "a finished step was lost"
    assert project.doit("tune=never").steps == []


def _fill(path: Path, room: int) -> None:
    """Leave ``room`` bytes free on the disk of ``path``."""
    free = os.statvfs(path.parent)
    with path.open("wb", buffering=0) as stream:
        wanted = free.f_bavail * free.f_frsize - room
        while wanted > 0:
            wanted -= stream.write(b"\0" * min(wanted, 4096))


@pytest.fixture
def read_only(project: DoitProject) -> Iterator[DoitProject]:
    """A built project whose build folder cannot be written, not even by root."""
    build = project.root / "build"
    bind = ["mount", "--bind", str(build), str(build)]
    again = ["mount", "-o", "remount,bind,ro", str(build)]
    for command in (bind, again):
        subprocess.run(command, check=True)
    yield project
    subprocess.run(["umount", "-l", str(build)], check=True)


@pytest.mark.mount
def test_read_only_build_folder_is_said(read_only: DoitProject) -> None:
    read_only.edit("models.yaml", "targets: {", "tolerance: {atol: 0.5}\n    targets: {")
    ran = read_only.doit("tune=never")
    assert ran.code == 1
    assert f"cannot write to {read_only.root}/build: {os.strerror(errno.EROFS)}" in ran.output
    assert "Traceback" not in ran.output
    assert read_only.doit("list", "--all", "-s").code == 0
