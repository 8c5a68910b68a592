"""Ctrl-C and kill -9 in every stage, disk full, read-only: nothing half-written, and the next doit completes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from doit_project import DoitProject, make_project, wait_for_line, wait_until_gone, write_project

pytestmark = pytest.mark.compiler

MODELS = "models:\n  digits:\n    source: {path: digits.onnx}\n    targets: {include: [v3]}\n"
STEPS = ["simplify:digits", "tune:digits@v3", "compile:digits@v3", "benchmark:digits@v3"]
LAST_OUTPUTS = {
    "simplify:digits": ["models/digits/model.onnx", "models/digits/reference.npz", "models/digits/simplify.json"],
    "tune:digits@v3": [f"cells/digits@v3/{name}.json" for name in ("tasks", "schedule", "tune")],
    "compile:digits@v3": ["cells/digits@v3/digits-v3.tar"],
    "benchmark:digits@v3": ["cells/digits@v3/result.json"],
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_models: Path) -> DoitProject:
    project = write_project(tmp_path_factory.mktemp("built"), shared_models / "mnist.onnx", MODELS)
    ran = project.doit("tune=never")
    assert ran.steps == STEPS, ran.output
    return project


@pytest.fixture
def project(built: DoitProject, tmp_path: Path) -> DoitProject:
    return built.copy(tmp_path)


def _remove_outputs(project: DoitProject, step: str) -> list[Path]:
    paths = [project.root / "build" / name for name in LAST_OUTPUTS[step]]
    for path in paths:
        path.unlink()
    return paths


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("number", "delay"),
    [(signal.SIGINT, 0.05), (signal.SIGINT, 0.7), (signal.SIGKILL, 0.05), (signal.SIGKILL, 0.7), (signal.SIGTERM, 0.7)],
    ids=["ctrl-c early", "ctrl-c", "kill-9 early", "kill-9", "term"],
)
def test_stopped_step_leaves_nothing_and_runs_again(
    project: DoitProject, step: str, number: signal.Signals, delay: float
) -> None:
    outputs = _remove_outputs(project, step)
    process = project.start("tune=never")
    wait_for_line(process, f".  {step}")
    time.sleep(delay)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    output = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    assert wait_until_gone(project.root) == []
    finished = f"ok {step}" in output
    if number == signal.SIGINT:
        assert [path.exists() for path in outputs] == [finished] * len(outputs)
        assert project.temporaries() == []
        assert "interrupted: nothing half-written is left" in output
        assert "Traceback" not in output
    again = project.doit("tune=never")
    assert again.code == 0, again.output
    assert (step in again.steps) is not finished
    assert project.temporaries() == []
    assert project.doit("tune=never").steps == []


def test_steps_finished_before_kill_9_are_kept(tmp_path: Path, shared_models: Path) -> None:
    project = write_project(tmp_path, shared_models / "mnist.onnx", MODELS)
    process = project.start("tune=never")
    wait_for_line(process, ".  compile:digits@v3")
    process.kill()
    process.communicate(timeout=60)
    assert wait_until_gone(project.root) == []
    assert project.doit("tune=never").steps == ["compile:digits@v3", "benchmark:digits@v3"]


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_ctrl_c_in_parallel_runs_ends_every_process(project: DoitProject, kind: str) -> None:
    project.edit("models.yaml", "    targets: {include: [v3]}\n", "")
    process = project.start("-n", "2", "-P", kind, "tune=never")
    wait_for_line(process, ".  tune:digits@v2")
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    assert "interrupted: nothing half-written is left" in output
    assert "Traceback" not in output
    assert wait_until_gone(project.root) == []
    again = project.doit("-n", "2", "-P", kind, "tune=never")
    assert again.code == 0, again.output
    assert again.steps == ["tune:digits@v2", "compile:digits@v2", "benchmark:digits@v2"]


def test_second_doit_waits_for_the_first_and_says_for_whom(project: DoitProject) -> None:
    _remove_outputs(project, "compile:digits@v3")
    first = project.start("tune=never")
    wait_for_line(first, ".  compile:digits@v3")
    second = project.doit("tune=never")
    assert f"waiting for another doit in this project (process {first.pid})" in second.output
    assert second.code == 0
    assert second.steps == []
    first.communicate(timeout=60)
    assert first.returncode == 0


def test_input_that_changes_while_its_step_runs_is_noticed(project: DoitProject) -> None:
    _remove_outputs(project, "compile:digits@v3")
    process = project.start("tune=never")
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
def small_disk(tmp_path: Path, shared_models: Path) -> Iterator[DoitProject]:
    """A project whose build folder is a disk with little room."""
    project = write_project(tmp_path, shared_models / "mnist.onnx", MODELS)
    build = project.root / "build"
    build.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(build)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    yield project
    subprocess.run(["umount", "-l", str(build)], check=True)


@pytest.mark.parametrize("room", [0, 4096, 20_000, 60_000, 90_000, 120_000])
def test_full_disk_is_said_and_the_next_doit_completes(small_disk: DoitProject, room: int) -> None:
    project = small_disk
    filler = project.root / "build" / "filler"
    _fill(filler, room)
    ran = project.doit("tune=never")
    assert "Traceback" not in ran.output, ran.output
    if ran.code == 0:
        assert room >= 90_000
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
    if os.geteuid() != 0 or subprocess.run(bind, check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount")
    subprocess.run(again, check=True)
    yield project
    subprocess.run(["umount", "-l", str(build)], check=True)


def test_read_only_build_folder_is_said(read_only: DoitProject) -> None:
    read_only.edit("models.yaml", "targets: {", "tolerance: {atol: 0.5}\n    targets: {")
    ran = read_only.doit("tune=never")
    assert ran.code == 1
    assert f"cannot write to {read_only.root}/build: {os.strerror(errno.EROFS)}" in ran.output
    assert "Traceback" not in ran.output
    assert read_only.doit("list", "--all", "-s").code == 0


# ------------------------------------------------------------------ failures


def test_failing_cell_stops_no_other_and_is_told(project: DoitProject) -> None:
    with (project.root / "models.yaml").open("a") as stream:
        stream.write("  broken:\n    source: {path: broken.onnx}\n    targets: {include: [v3]}\n")
    (project.root / "broken.onnx").write_bytes(b"no model")
    project.edit("models.yaml", "    targets: {include: [v3]}\n  broken", "  broken")
    ran = project.doit("tune=never")
    assert ran.code != 0
    assert ran.failed == ["simplify:broken"]
    assert ran.steps == ["tune:digits@v2", "compile:digits@v2", "benchmark:digits@v2"]
    assert "-- compile:broken@v3  not run: simplify:broken failed" in ran.output
    assert "Traceback" not in ran.output
    failure = json.loads((project.root / "build/logs/simplify.broken.failed.json").read_text())
    assert failure["ran"] is True
    assert (project.root / failure["log"]).exists()
    (project.root / "broken.onnx").write_bytes((project.root / "digits.onnx").read_bytes())
    again = project.doit("tune=never")
    assert again.code == 0, again.output
    assert again.steps == ["simplify:broken", "tune:broken@v3", "compile:broken@v3", "benchmark:broken@v3"]
    assert not (project.root / "build/logs/simplify.broken.failed.json").exists()


def test_failure_upstream_keeps_what_was_built_downstream(project: DoitProject) -> None:
    good = (project.root / "digits.onnx").read_bytes()
    (project.root / "digits.onnx").write_bytes(b"no model")
    assert project.doit("tune=never").code != 0
    (project.root / "digits.onnx").write_bytes(good)
    assert project.doit("tune=never").steps == ["simplify:digits"]


def test_missing_source_is_named_and_its_return_is_enough(project: DoitProject) -> None:
    (project.root / "digits.onnx").rename(project.root / "away.onnx")
    ran = project.doit("tune=never")
    assert ran.code != 0
    assert "the file digits.onnx does not exist" in ran.output
    assert "Traceback" not in ran.output
    (project.root / "away.onnx").rename(project.root / "digits.onnx")
    assert project.doit("tune=never").steps == []


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGKILL, "its process was killed (SIGKILL), most likely because memory ran out"),
        (signal.SIGSEGV, "its process crashed (SIGSEGV)"),
    ],
)
def test_killed_stage_is_explained(project: DoitProject, number: signal.Signals, message: str) -> None:
    _remove_outputs(project, "compile:digits@v3")
    process = project.start("tune=never")
    wait_for_line(process, ".  compile:digits@v3")
    time.sleep(0.5)
    stage = _find_stage(process.pid)
    os.kill(stage, number)
    output = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    assert "!! compile:digits@v3" in output
    assert message in output
    assert f"Log: {project.root}/build/logs/compile.digits@v3.log" in output
    assert wait_until_gone(project.root) == []


def test_bug_in_a_stage_shows_its_last_lines_and_the_log(project: DoitProject, tmp_path: Path) -> None:
    _remove_outputs(project, "simplify:digits")
    (tmp_path / "onnxruntime.py").write_text("raise RuntimeError('a damaged installation')\n")
    ran = project.doit("tune=never", PYTHONPATH=str(tmp_path))
    assert ran.code != 0
    assert "a bug in tvmbuild, or in a library that it uses; the last lines:" in ran.output
    assert "  | RuntimeError: a damaged installation" in ran.output
    assert f"Log: {project.root}/build/logs/simplify.digits.log" in ran.output
    assert "RuntimeError: a damaged installation" in (project.root / "build/logs/simplify.digits.log").read_text()
    assert project.doit("tune=never").steps == ["simplify:digits"]


def _find_stage(parent: int) -> int:
    output = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True)
    return int(output.stdout.split()[0])


def test_moved_project_is_still_built(project: DoitProject, tmp_path: Path) -> None:
    moved = make_project(tmp_path / "elsewhere")
    moved.root.rmdir()
    project.root.rename(moved.root)
    assert moved.doit("tune=never").steps == []


@pytest.mark.parametrize("place", ["build", "/"])
def test_doit_works_from_another_folder(project: DoitProject, place: str) -> None:
    dodo = str(project.root / "dodo.py")
    command = [sys.executable, "-m", "doit", "-f", dodo, "tune=never"]
    folder = project.root / place
    done = subprocess.run(
        command, cwd=folder, env=project.environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "0 done, 4 up to date" in done.stdout
