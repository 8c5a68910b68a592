"""A step that fails: the messages, the steps that still run, the files that are kept."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from doit_project import DoitProject, make_project, wait_for_line, wait_until_gone


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


def test_too_far_from_the_original_fails_the_cell_and_keeps_the_figure(project: DoitProject) -> None:
    samples = np.random.RandomState(0).uniform(0, 255, (2, 1, 28, 28)).astype(np.float32)
    np.savez(project.root / "real.npz", Input3=samples)
    asked = "    accuracy: {inputs: real.npz, of_largest: 1.0e-12}\n    targets:"
    project.edit("models.yaml", "    targets:", asked)
    ran = project.doit("tune=never")
    assert (ran.code != 0, ran.steps, ran.failed) == (True, [], ["benchmark:digits@v3"]), ran.output
    said = ran.output.partition("too far from the original model on real inputs: ")[2]
    assert re.match(r"of_largest is \S+, allowed is 1e-12, worst is real.npz\[[01]\]\n", said), ran.output
    result = json.loads((project.root / "build/cells/digits@v3/result.json").read_text())
    assert result["accuracy"]["samples"] == 2
    assert 1e-12 < result["accuracy"]["of_largest"] < 1e-3
    row = next(line for line in (project.root / "build/report.md").read_text().splitlines() if "| failed |" in line)
    assert float(row.split(" | ")[4]) > 0
    assert project.doit("tune=never").failed == ["benchmark:digits@v3"]
    project.edit("models.yaml", "1.0e-12", "1.0e-3")
    again = project.doit("tune=never")
    assert (again.code, again.steps) == (0, ["benchmark:digits@v3"]), again.output
    assert "| failed |" not in (project.root / "build/report.md").read_text()
    assert project.doit("tune=never").steps == []


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
    (project.root / "build/cells/digits@v3/digits-v3.tar").unlink()
    log = project.root / "build/logs/compile.digits@v3.log"
    log.unlink()
    process = project.start("tune=never", QUICK_STAGE_SECONDS="60")
    wait_for_line(process, ".  compile:digits@v3")
    deadline = time.monotonic() + 60
    while not (log.exists() and "progress importing" in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    stage = _find_stage(process.pid)
    os.kill(stage, number)
    output = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    assert "!! compile:digits@v3" in output
    assert message in output
    assert f"Log: {project.root}/build/logs/compile.digits@v3.log" in output
    assert wait_until_gone(project.root) == []


def test_bug_in_a_stage_shows_its_last_lines_and_the_log(project: DoitProject, tmp_path: Path) -> None:
    (project.root / "build/models/digits/simplify.json").unlink()
    (tmp_path / "onnxruntime.py").write_text("raise RuntimeError('a damaged installation')\n")
    bug = {"QUICK_STAGE_BUG": "simplify"} if project.quick else {"PYTHONPATH": str(tmp_path)}
    ran = project.doit("tune=never", **bug)
    assert ran.code != 0
    assert "a bug in tvmbuild, or in a library that it uses:" in ran.output
    assert "  | RuntimeError: a damaged installation" in ran.output
    assert f"Log: {project.root}/build/logs/simplify.digits.log" in ran.output
    assert "RuntimeError: a damaged installation" in (project.root / "build/logs/simplify.digits.log").read_text()
    assert project.doit("tune=never").steps == ["simplify:digits"]


def _find_stage(parent: int) -> int:
    return int(psutil.Process(parent).children()[0].pid)


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
