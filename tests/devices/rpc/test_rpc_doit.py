"""Boards in a wrong state under doit: one message each, nothing half-written, and the next doit is right."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from doit_project import DoitProject, Ran, wait_for_line, wait_until_gone, write_project
from other_processes import is_gone
from rpc_boards import (
    CPU,
    OLD,
    board,
    count_boards,
    count_free,
    find_workers,
    free_port,
    running,
    tracker,
    wait_until,
)

from tvmbuild.devices.rpc.supervisor import Serving
from tvmbuild.devices.rpc.tracker import split_address

pytestmark = pytest.mark.compiler

DOWN = "127.0.0.1:1"
CELL = "benchmark:digits@pc"
MODELS = "models:\n  digits: {source: {path: digits.onnx}}\n"
TARGETS = f"""\
targets:
  pc:
    kind: llvm
    mcpu: x86-64
    mtriple: x86_64-linux-gnu
    num-cores: 1
    device: {{rpc: {{tracker: "{DOWN}", key: pc}}}}
    benchmark: {{number: 50, repeat: 2000}}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> DoitProject:
    project = write_project(tmp_path_factory.mktemp("built"), digits, MODELS, TARGETS)
    ran = project.doit("tune=never", "compile:digits@pc")
    assert ran.code == 0, ran.output
    return project


@pytest.fixture
def project(built: DoitProject, tmp_path: Path) -> DoitProject:
    return built.copy(tmp_path)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tracker(tmp_path_factory.mktemp("tracker")) as found:
        yield found


def expect_failure(project: DoitProject, ran: Ran) -> str:
    """Check that the failed step wrote nothing; return its output."""
    assert ran.code != 0
    assert ran.failed == [CELL], ran.output
    assert "Traceback" not in ran.output
    left_nothing(project)
    return ran.output


def left_nothing(project: DoitProject) -> None:
    assert not (project.root / "build/cells/digits@pc/result.json").exists()
    assert not (project.root / "build/history.jsonl").exists()
    assert project.temporaries() == []
    assert wait_until_gone(project.root) == []


def test_the_tracker_is_down(project: DoitProject) -> None:
    output = expect_failure(project, project.doit("tune=never"))
    assert f"no RPC tracker answers at {DOWN}: Connection refused" in output
    assert "start one there: `tvmbuild device tracker --port 1`" in output


def test_the_key_is_unknown(project: DoitProject, address: str) -> None:
    project.edit("targets.yaml", DOWN, address)
    output = expect_failure(project, project.doit("tune=never"))
    assert f"the tracker at {address} knows no board with the key pc" in output
    assert f"`tvmbuild device serve --tracker {address} --key pc`" in output


@pytest.mark.nightly
def test_the_boards_tvm_is_too_old(project: DoitProject, address: str, tmp_path: Path) -> None:
    project.edit("targets.yaml", f'"{DOWN}", key: pc', f'"{address}", key: old')
    serving = json.dumps(asdict(Serving(split_address(address), "old", port=free_port(), cpu=CPU)))
    with running(["-c", OLD, serving], tmp_path / "old.log"):
        wait_until(lambda: count_boards(address, "old") == 1)
        output = expect_failure(project, project.doit("tune=never"))
    assert "the board old has TVM 0.24.0, this machine " in output
    assert "on the board: `pip install apache-tvm==" in output


@pytest.mark.nightly
def test_ctrl_c_while_a_board_times(project: DoitProject, address: str, tmp_path: Path) -> None:
    project.edit("targets.yaml", f'"{DOWN}", key: pc', f'"{address}", key: mine')
    with board(address, "mine", tmp_path) as supervisor:
        process = project.start("tune=never")
        wait_for_line(process, f".  {CELL}")
        wait_until(lambda: bool(find_workers(supervisor)))
        (worker,) = find_workers(supervisor)
        time.sleep(2)
        os.killpg(process.pid, signal.SIGINT)
        output = process.communicate(timeout=60)[0]
        assert process.returncode != 0
        assert "interrupted: nothing half-written is left" in output
        assert "Traceback" not in output
        left_nothing(project)
        wait_until(lambda: is_gone(worker))
        wait_until(lambda: count_free(address, "mine") == 1)
        project.edit("targets.yaml", "repeat: 2000", "repeat: 5")
        again = project.doit("tune=never")
        assert (again.code, again.steps) == (0, [CELL]), again.output
