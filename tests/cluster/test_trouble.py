"""Workers that die, interrupted builds, and needs that no worker has: one message each, nothing half-written."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from dask_cluster import DaskCluster, find_step, kill_worker_of, wait_for
from doit_project import ON_V3, OUTPUTS_ON_V3, REAL, STEPS_ON_V3, DoitProject, write_project
from other_processes import find_below

import tvmbuild
from tvmbuild.cli.worker import choose_host
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.timeout(600)

TARGETS = """\
defaults: {device: local, benchmark: {repeat: 3}}
targets:
  v3: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 1}
  pi4:
    kind: llvm
    mcpu: cortex-a72
    mtriple: aarch64-linux-gnu
    num-cores: 2
    device: {rpc: {tracker: "127.0.0.1:9190", key: pi4}}
"""


@pytest.fixture
def project(tmp_path: Path, digits: Path, quick: bool) -> DoitProject:
    return write_project(tmp_path, digits, ON_V3, TARGETS, quick=quick)


def start(project: DoitProject, cluster: DaskCluster) -> subprocess.Popen[str]:
    return project.start("build", "--scheduler", cluster.address, "tune=never", tool=("tvmbuild",))


def await_step(workers: list[subprocess.Popen[bytes]]) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """Return the first worker that runs a step, and the step's process."""
    found: list[tuple[subprocess.Popen[bytes], psutil.Process]] = []

    def look() -> bool:
        found.extend((worker, step) for worker in workers if (step := find_step(worker)) is not None)
        return bool(found)

    wait_for(look)
    return found[0]


def test_killed_worker_comes_back_and_the_step_runs_again(project: DoitProject, lone: DaskCluster) -> None:
    worker = lone.start_worker()
    process = start(project, lone)
    _, step = await_step([worker])
    kill_worker_of(step)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert re.findall(r"^ok (\S+)", output, re.MULTILINE) == STEPS_ON_V3
    assert len(re.findall(r"^   simplify:digits  on ", output, re.MULTILINE)) == 2
    assert not step.is_running()
    assert project.temporaries() == []
    assert project.doit("tune=never").steps == []


@pytest.mark.parametrize("quick", [pytest.param("real", marks=REAL)], indirect=True, scope="module")
def test_lost_machine_is_done_without(project: DoitProject, lone: DaskCluster) -> None:
    workers = [lone.start_worker(), lone.start_worker()]
    process = start(project, lone)
    lost, step = await_step(workers)
    nanny = psutil.Process(lost.pid)
    for each in (nanny, *find_below(nanny, lambda each: each != step)):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert re.findall(r"^ok (\S+)", output, re.MULTILINE) == STEPS_ON_V3
    psutil.wait_procs([step], timeout=10)
    assert not step.is_running()


def test_ctrl_c_ends_what_runs_elsewhere(project: DoitProject, cluster: DaskCluster) -> None:
    process = start(project, cluster)
    _, step = await_step(cluster.processes[1:])
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "interrupted: nothing half-written is left" in output
    assert "Traceback" not in output
    wait_for(lambda: not step.is_running(), 10)
    assert not list((project.root / "build/models").rglob("*")) or project.temporaries() == []
    ran = project.tvmbuild("build", "--scheduler", cluster.address, "tune=never")
    assert (ran.code, ran.steps) == (0, STEPS_ON_V3), ran.output


@pytest.mark.parametrize("quick", [pytest.param("real", marks=REAL)], indirect=True, scope="module")
def test_what_no_worker_has_is_named_and_the_rest_is_built(project: DoitProject, cluster: DaskCluster) -> None:
    project.edit("models.yaml", "[v3]", "[v3, pi4]")
    ran = project.tvmbuild("build", "--scheduler", cluster.address, "tune=never")
    assert (ran.code, ran.failed) == (2, ["benchmark:digits@pi4"]), ran.output
    assert f"no worker of {cluster.address} has device:pi4" in ran.output
    assert sorted(ran.steps) == sorted([*STEPS_ON_V3, "tune:digits@pi4", "compile:digits@pi4"])
    assert not (project.root / "build/cells/digits@pi4/result.json").exists()


def test_scheduler_without_workers(project: DoitProject, lone: DaskCluster) -> None:
    ran = project.tvmbuild("build", "--scheduler", lone.address)
    assert ran.code == 1
    assert f"error: the scheduler {lone.address} has no worker for tvmbuild\n" in ran.output
    assert not (project.root / "build/models").exists()


@pytest.mark.parametrize("quick", [pytest.param("real", marks=REAL)], indirect=True, scope="module")
def test_scheduler_that_goes_away(project: DoitProject, lone: DaskCluster) -> None:
    worker = lone.start_worker()
    process = start(project, lone)
    _, step = await_step([worker])
    lone.processes[0].kill()
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert "!! simplify:digits" in output
    assert f"the scheduler {lone.address} was lost" in output
    assert "Traceback" not in output
    wait_for(lambda: not step.is_running(), 60)
    assert project.temporaries() == []


@pytest.mark.parametrize("quick", [pytest.param("real", marks=REAL)], indirect=True, scope="module")
def test_worker_of_another_version_is_refused(project: DoitProject, lone: DaskCluster, tmp_path: Path) -> None:
    package = Path(tvmbuild.__file__).parent
    shutil.copytree(package, tmp_path / "old/tvmbuild", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "old/tvmbuild/__init__.py"
    file.write_text(file.read_text().replace(f'"{tvmbuild.__version__}"', '"0.0.1"'))
    lone.start_worker(PYTHONPATH=str(tmp_path / "old"))
    ran = project.tvmbuild("build", "--scheduler", lone.address)
    assert ran.code == 1
    told = rf"error: the worker \S+ has tvmbuild 0.0.1, but this machine has {tvmbuild.__version__}\n"
    assert re.search(told, ran.output)
    assert not (project.root / "build/models").exists()


@pytest.mark.parametrize("quick", [pytest.param("real", marks=REAL)], indirect=True, scope="module")
def test_step_that_no_worker_survives(project: DoitProject, lone: DaskCluster) -> None:
    worker = lone.start_worker()
    process = start(project, lone)
    killed: set[int] = set()
    while process.poll() is None:
        step = find_step(worker)
        if step is not None and step.pid not in killed:
            killed.add(step.pid)
            kill_worker_of(step)
        time.sleep(0.02)
    output, _ = process.communicate()
    assert process.returncode == 2, output
    # A step may end before it is seen; then the next one is the first to lose four.
    failed = re.findall(r"^!! (\S+)", output, re.MULTILINE)
    assert len(failed) == 1
    assert len(re.findall(rf"^   {failed[0]}  on ", output, re.MULTILINE)) == 4
    assert "4 workers died while they ran it, the last was " in output
    assert not any((project.root / "build" / name).exists() for name in OUTPUTS_ON_V3[failed[0]])
    assert project.temporaries() == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("localhost", "localhost is not an address of a scheduler"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9 is not an address of a scheduler"),
        ("tcp://127.0.0.1:99999", "no scheduler answers at tcp://127.0.0.1:99999"),
        ("tcp://127.0.0.1:9", "no scheduler answers at tcp://127.0.0.1:9"),
        ("tls://127.0.0.1:9", "tls://127.0.0.1:9 needs TLS, and Dask's settings name no certificate for a "),
    ],
)
@pytest.mark.parametrize("command", [("build", "--scheduler"), ("worker",)])
def test_addresses(project: DoitProject, command: tuple[str, ...], address: str, said: str) -> None:
    ran = project.tvmbuild(*command, address, DASK_CONFIG="/nonexistent")
    assert (ran.code, ran.output.count("\n")) == (1, 2), ran.output
    assert ran.output.startswith(f"error: {said}")


def test_worker_that_nobody_could_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.create_connection", lambda *_: socket.socket())
    with pytest.raises(TvmbuildError, match=r"only on 127\.0\.0\.1 by default"):
        choose_host("tcp://192.0.2.1:8786", None)
    assert choose_host("tcp://192.0.2.1:8786", "192.0.2.2") == "192.0.2.2"
    assert choose_host("tcp://127.0.0.1:8786", None) == "127.0.0.1"
