"""The command `tvmbuild bench`: real packages of a small model, timed for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from doit_project import DoitProject, Ran, write_project

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.layout import Layout
from tvmbuild.benchmarking.history import read_history

CELL = "digits@v3"
QUICK = ("--repeat", "5")

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> DoitProject:
    """digits compiled without records for v3, and not for v2."""
    project = write_project(tmp_path_factory.mktemp("built"), digits)
    done = project.doit(f"compile:{CELL}", "tune=never")
    assert done.code == 0, done.output
    return project


@pytest.fixture
def project(built: DoitProject, tmp_path: Path) -> DoitProject:
    return built.copy(tmp_path)


def package(project: DoitProject) -> Path:
    return Layout(project.root).package("digits", "v3")


def bench(project: DoitProject, *arguments: str, **extra: str) -> Ran:
    return project.tvmbuild("bench", *arguments, **{"COLUMNS": "80", **extra})


def test_cells_are_timed_again_and_remembered(project: DoitProject) -> None:
    done = bench(project, CELL, *QUICK)
    assert done.code == 0, done.output
    assert f"{CELL}: 1 thread, 0 of " in done.output
    rows = {line.split()[0]: line for line in done.output.splitlines() if line.strip()}
    assert "onnxruntime" in rows
    assert any(word in rows["onnxruntime"] for word in ("faster", "slower", "no difference"))
    shown = ("package ", "onnxruntime ")
    table = [line.rstrip() for line in done.output.splitlines() if line.lstrip().startswith(shown)]
    assert max(map(len, table)) <= 80
    (entry,) = read_history(Layout(project.root).history).entries
    assert (entry.result.cell, entry.result.latency.repeat, entry.schedules) == (CELL, 5, FrozenMap())
    # No result.json: it is doit's file, and doit would find it changed.
    assert not Layout(project.root).cell_file("digits", "v3", "result.json").exists()


def test_globs_leave_out_what_is_not_built_and_names_do_not(project: DoitProject) -> None:
    done = bench(project, "digits@*", *QUICK, "--threads", "1", "--number", "2")
    assert done.code == 0, done.output
    (entry,) = read_history(Layout(project.root).history).entries
    assert (entry.result.cell, entry.result.latency.number) == (CELL, 2)
    done = bench(project, "digits@v2")
    assert done.code == 1
    assert "error: digits@v2 is not built\n  hint: `tvmbuild compile:digits@v2` builds it" in done.output


def test_other_threads_than_the_cells_are_not_remembered(project: DoitProject) -> None:
    done = bench(project, CELL, *QUICK, "--threads", str(min(2, available_cores())))
    assert done.code == 0, done.output
    remembered = len(read_history(Layout(project.root).history).entries)
    assert remembered == (1 if available_cores() == 1 else 0)
    assert ("not added to the history, whose benchmarks have 1 thread" in done.output) is (remembered == 0)


def test_a_cell_beside_another_package(project: DoitProject, tmp_path: Path) -> None:
    old = tmp_path / "old.tar"
    shutil.copyfile(package(project), old)
    done = bench(project, CELL, "--vs", str(old), *QUICK)
    assert done.code == 0, done.output
    assert [rival.name for rival in read_history(Layout(project.root).history).entries[0].result.rivals] == [
        "onnxruntime",
        str(old),
    ]


@pytest.mark.nightly
def test_two_packages_need_no_project(project: DoitProject, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("a.tar", "b.tar"):
        shutil.copyfile(package(project), folder / name)
    elsewhere = DoitProject(folder, project.runtime)
    done = bench(elsewhere, "a.tar", "--vs", "b.tar", *QUICK)
    assert done.code == 0, done.output
    assert "a.tar: 1 thread" in done.output
    assert "b.tar" in done.output
    assert "::progress" not in done.output
    assert sorted(path.name for path in folder.iterdir()) == ["a.tar", "b.tar"]
    for words, message in (
        (["a.tar"], "a.tar has no package to be compared with"),
        (["a.tar", "--vs", "c.tar"], "c.tar: no such package"),
        (["a.tar", "b.tar"], "`tvmbuild bench` times one package at a time"),
        (["c.tar", "--vs", "a.tar"], "c.tar: no such package"),
        (["a.tar", "--vs", "b.tar", "--since", "v1"], "--since compares cells"),
        ([CELL], "no models.yaml in "),
    ):
        done = bench(elsewhere, *words)
        assert (done.code, message in done.output) == (1, True), done.output


def test_a_cell_that_fails_stops_no_other_and_is_no_success(project: DoitProject) -> None:
    data = bytearray(package(project).read_bytes())
    data[len(data) // 2] ^= 1
    package(project).write_bytes(data)
    done = bench(project, "*")
    assert done.code == 1
    assert f"error: {CELL}: digits-v3.tar is damaged" in done.output
    assert read_history(Layout(project.root).history).entries == ()


def test_a_cell_too_far_from_the_original_is_shown_and_is_no_success(project: DoitProject) -> None:
    np.savez(project.root / "real.npz", Input3=np.random.RandomState(0).uniform(0, 255, (2, 1, 28, 28)).astype("f4"))
    project.edit("models.yaml", "    tolerance:", "    accuracy: {inputs: real.npz, rms: 1.0e-12}\n    tolerance:")
    done = bench(project, CELL, *QUICK)
    assert done.code == 1
    assert "on real inputs: same top-1 for 2 of 2 (100.0%), rms 0.00%, largest error " in done.output
    assert f"error: {CELL}: too far from the original model on real inputs: rms is " in done.output
    (entry,) = read_history(Layout(project.root).history).entries
    assert entry.result.accuracy is not None


def test_strict_refuses_a_busy_machine(project: DoitProject) -> None:
    spin = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    with ExitStack() as stack:
        for _ in range(len(os.sched_getaffinity(0))):
            stack.callback(stack.enter_context(subprocess.Popen([sys.executable, "-c", spin])).kill)
        done = bench(project, CELL, "--strict")
    assert done.code == 1
    assert f"error: {CELL}: the machine is busy: other programs take " in done.output
    assert not Layout(project.root).history.exists()
