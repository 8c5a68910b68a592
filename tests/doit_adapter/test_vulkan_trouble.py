"""A Vulkan project that is interrupted, or whose device disappears: one message each, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from doit_project import DoitProject, wait_until_gone
from other_processes import find_below
from rpc_boards import wait_until
from vulkan_project import CELL, PACKAGE, write_vulkan_project

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
BENCHMARK = f"benchmark:{CELL}"
NO_DRIVER = {"VK_DRIVER_FILES": "/none", "VK_ICD_FILENAMES": "/none"}
SETTINGS = {
    "driver": (NO_DRIVER, "Vulkan's loader finds no driver; `apt install mesa-vulkan-drivers`"),
    "device": (
        {"TVMBUILD_VULKAN_DEVICE": "nonsense"},
        "TVMBUILD_VULKAN_DEVICE=nonsense names no device; there are 0 llvmpipe",
    ),
    "feature": (
        {"TVMBUILD_VULKAN_WITHOUT": "nonsense"},
        "TVMBUILD_VULKAN_WITHOUT does not know nonsense; allowed: unified_memory, ",
    ),
    "runtime": (
        {"TVMBUILD_VULKAN": "tvm"},
        "TVMBUILD_VULKAN=tvm leaves tvmbuild's Vulkan out, and this TVM has none; unset it",
    ),
}
"""Fault → (the environment, the message)."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> DoitProject:
    project = write_vulkan_project(tmp_path_factory.mktemp("compiled"))
    ran = project.doit("tune=never", f"compile:{CELL}")
    assert ran.code == 0, ran.output
    return project


@pytest.fixture
def project(compiled: DoitProject, tmp_path: Path) -> DoitProject:
    return compiled.copy(tmp_path)


def find_holders(process: subprocess.Popen[str], word: str) -> list[psutil.Process]:
    """Return the processes below that have our runtime loaded and ``word`` in their command."""
    return find_below(
        psutil.Process(process.pid),
        lambda each: (
            word in " ".join(each.cmdline()) and "libtvmbuild_vulkan" in Path(f"/proc/{each.pid}/maps").read_text()
        ),
    )


def kill_holder(process: subprocess.Popen[str], word: str, also: Callable[[], bool] = lambda: True) -> None:
    wait_until(lambda: also() and any(is_killed(each) for each in find_holders(process, word)))


def is_killed(process: psutil.Process) -> bool:
    """Kill the process; return False if it had ended before."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
        return True
    return False


def has_measured(project: DoitProject) -> bool:
    return any(path.stat().st_size for path in (project.root / "build/journal").rglob("*.jsonl"))


def searched(project: DoitProject) -> int:
    """Return how many candidates the records count as measured."""
    files = [json.loads(path.read_text()) for path in (project.root / "records/soft").glob("*.json")]
    return sum(sum(file["searched"].values()) for file in files)


@pytest.mark.parametrize("what", SETTINGS)
def test_a_half_that_goes_away_in_the_middle_of_a_project(project: DoitProject, what: str) -> None:
    variables, reason = SETTINGS[what]
    package = (project.root / PACKAGE).read_bytes()
    there = " ".join(project.doit("tune=never", **variables).output.split())
    assert reason in there
    strict = project.doit("tune=never", "strict=1", **variables)
    assert strict.code != 0
    assert BENCHMARK in strict.failed
    assert reason in strict.output
    shown = project.tvmbuild("run", PACKAGE, **variables)
    assert shown.code != 0
    assert reason in shown.output
    assert "Traceback" not in there + strict.output + shown.output
    assert (project.root / PACKAGE).read_bytes() == package
    back = project.doit("tune=never", "strict=1")
    assert (back.code, BENCHMARK in back.steps) == (0, True), back.output
    assert (project.root / PACKAGE).read_bytes() == package


@pytest.mark.nightly
def test_ctrl_c_while_candidates_are_measured(project: DoitProject) -> None:
    project.edit("targets.yaml", "trials_per_task: 2", "trials_per_task: 2000, patience: null")
    process = project.start(f"tune:{CELL}")
    wait_until(lambda: has_measured(project))
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    assert re.search(rf"tune:{CELL}  stopped: .*; every measurement is kept", output), output
    assert "Traceback" not in output
    assert wait_until_gone(project.root) == []
    assert has_measured(project)
    project.edit("targets.yaml", "trials_per_task: 2000, patience: null", "trials_per_task: 2")
    again = project.doit()
    assert again.code == 0, again.output
    assert searched(project) > 0
    result = json.loads((project.root / f"build/cells/{CELL}/result.json").read_text())
    assert result["package"]["covered"] == 1


def test_kill_9_of_the_process_that_times_candidates(project: DoitProject) -> None:
    """It costs the candidate that was being timed; the search goes on in another process."""
    project.edit("targets.yaml", "trials_per_task: 2", "trials_per_task: 16, patience: null")
    process = project.start(f"tune:{CELL}")
    kill_holder(process, "popen_worker", lambda: has_measured(project))
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert searched(project) == 16
    log = (project.root / f"build/logs/tune.{CELL}.log").read_text()
    failed = sum(map(int, re.findall(r"(\d+) of \d+ candidates failed", log)))
    assert failed <= 1, log


def test_kill_9_of_the_process_that_runs_the_package(project: DoitProject) -> None:
    project.edit("targets.yaml", "repeat: 3", "repeat: 5000, number: 50")
    process = project.start("tune=never", BENCHMARK)
    kill_holder(process, "serve_model")
    output = process.communicate(timeout=60)[0]
    assert "the process that ran product-soft.tar died of signal 9 (SIGKILL)" in output
    assert "Traceback" not in output
    assert not (project.root / f"build/cells/{CELL}/result.json").exists()
    project.edit("targets.yaml", "repeat: 5000, number: 50", "repeat: 3")
    again = project.doit("tune=never")
    assert (again.code, again.steps) == (0, [BENCHMARK]), again.output


@pytest.mark.nightly
def test_two_projects_tune_on_one_device_at_once(project: DoitProject, tmp_path: Path) -> None:
    other = DoitProject(project.copy(tmp_path / "other").root, project.runtime)
    processes = [each.start(f"tune:{CELL}") for each in (project, other)]
    for each, process in zip((project, other), processes, strict=True):
        output = process.communicate(timeout=180)[0]
        assert process.returncode == 0, output
        assert searched(each) == 2


@pytest.mark.nightly
def test_a_cache_folder_that_cannot_be_written(project: DoitProject) -> None:
    """The runtime is then compiled for each process, which is slow but right."""
    ran = project.doit("tune=never", BENCHMARK, XDG_CACHE_HOME="/proc/none")
    assert (ran.code, ran.steps) == (0, [BENCHMARK]), ran.output
    shown = project.tvmbuild("run", PACKAGE, XDG_CACHE_HOME="/proc/none")
    assert (shown.code, "Traceback" in shown.output) == (0, False), shown.output
