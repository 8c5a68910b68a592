"""Vulkan packages on a board without Python: our runtime travels with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from doit_project import DoitProject
from ranged_nets import build_ranged_package, draw
from ssh_board import ssh_board
from vulkan_project import CELL, PACKAGE, STEPS, TARGETS, write_vulkan_project

from tvmbuild.base.device_specs import SshDevice
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.devices.ssh.device import open_ssh
from tvmbuild.package.inputs import write_arrays

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.compiler,
    pytest.mark.ssh,
    pytest.mark.vulkan,
    pytest.mark.timeout(1200),
]
REASONS = {
    "VK_DRIVER_FILES": "Vulkan's loader finds no driver; `apt install mesa-vulkan-drivers`",
    "TVMBUILD_VULKAN_DEVICE": "TVMBUILD_VULKAN_DEVICE=nonsense names no device; there are 0 llvmpipe",
}


@pytest.fixture
def project(tmp_path: Path) -> DoitProject:
    return write_vulkan_project(tmp_path, "{ssh: board}")


def test_a_package_is_checked_timed_and_run_there(project: DoitProject, tmp_path: Path) -> None:
    with ssh_board(tmp_path) as board:
        ran = project.doit(PATH=board.path)
        assert (ran.code, ran.steps) == (0, STEPS), ran.output
        result = json.loads((project.root / f"build/cells/{CELL}/result.json").read_text())
        assert 0 < result["max_abs_error"] < 1e-4
        shown = project.tvmbuild("run", PACKAGE, "--device", "ssh:board", "--print-time", PATH=board.path)
        assert (shown.code, "latency in ms" in shown.output) == (0, True), shown.output
        assert list(board.temporary.iterdir()) == []


def test_any_batch_is_computed_in_parts_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = build_ranged_package("soft", TARGETS)
    write_arrays(tmp_path / "in.npz", {f"input:{name}": value for name, value in draw(11).items()})
    whole = Load("tvm", package, tmp_path / "in.npz", 1)
    with ssh_board(tmp_path) as board:
        monkeypatch.setenv("PATH", board.path)
        with open_ssh(SshDevice("board")).start(whole) as worker, start_worker(whole) as here:
            for batch in (11, 2, 8):
                got, want = worker.run(draw(batch)), here.run(draw(batch))
                assert all(np.array_equal(got[name], want[name]) for name in want)
            assert len(worker.time(number=2, repeat=3)) == 3


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"VK_DRIVER_FILES": "/none", "VK_ICD_FILENAMES": "/none"}, id="no driver"),
        pytest.param({"TVMBUILD_VULKAN_DEVICE": "nonsense"}, id="no such device"),
    ],
)
def test_a_board_that_has_no_device_to_use(project: DoitProject, tmp_path: Path, variables: Mapping[str, str]) -> None:
    with ssh_board(tmp_path, variables=variables) as board:
        ran = project.doit(PATH=board.path)
    assert ran.failed == [f"benchmark:{CELL}"], ran.output
    assert "on the board board: the package " in ran.output
    assert REASONS[next(iter(variables))] in ran.output
    assert "Traceback" not in ran.output
