"""Vulkan targets whose device is a board: tuned, checked and timed there, on a driver that computes on its CPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from doit_project import DoitProject
from rpc_boards import Python, board, tracker
from vulkan_project import CELL, DEVICE_CLASS, PACKAGE, STEPS, write_vulkan_project

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
BOARDS = {
    "gpu": {},
    "blind": {"VK_DRIVER_FILES": "/none", "VK_ICD_FILENAMES": "/none"},
    "other": {"TVMBUILD_VULKAN_DEVICE": "nonsense"},
}
"""Key → the additional environment of the board."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tracker(tmp_path_factory.mktemp("tracker")) as found:
        yield found


def start(address: str, key: str, folder: Path) -> DoitProject:
    return write_vulkan_project(folder, f'{{rpc: {{tracker: "{address}", key: {key}, timeout_s: 30}}}}')


def test_a_board_tunes_checks_times_and_runs(address: str, tmp_path: Path) -> None:
    project = start(address, "gpu", tmp_path)
    with board(address, "gpu", tmp_path):
        ran = project.doit()
        assert (ran.code, ran.steps) == (0, STEPS), ran.output
        (path,) = (project.root / "records/soft").glob("*.json")
        task = json.loads(path.read_text())
        assert task["searched"] == {DEVICE_CLASS: 2}
        assert {record["measured_on"] for record in task["records"]} == {DEVICE_CLASS}
        result = json.loads((project.root / f"build/cells/{CELL}/result.json").read_text())
        assert (result["package"]["covered"], result["package"]["tasks"]) == (1, 1)
        assert result["max_abs_error"] < 1e-4
        shown = project.tvmbuild("run", PACKAGE, "--device", f"rpc:{address}/gpu", "--profile", "--repeat", "3")
        assert "every operator ran on the vulkan device" in shown.output, shown.output
    assert project.doit().steps == []


@pytest.mark.parametrize(
    ("key", "more", "reason"),
    [
        ("blind", "", "Vulkan's loader finds no driver; `apt install mesa-vulkan-drivers`"),
        ("other", "measured_on: kitchen", "TVMBUILD_VULKAN_DEVICE=nonsense names no device; there are 0 llvmpipe"),
    ],
)
def test_a_board_that_has_no_device_to_use(address: str, tmp_path: Path, key: str, more: str, reason: str) -> None:
    """Nothing counts as searched or is timed; one message has the reason, for a queried and a stated class."""
    project = start(address, key, tmp_path)
    project.edit("targets.yaml", "    family: lavapipe\n", f"    family: lavapipe\n    {more}\n")
    with board(address, key, tmp_path, Python(variables=BOARDS[key])):
        tuned = project.doit()
        checked = project.doit("tune=never")
    assert tuned.failed == [f"tune:{CELL}"], tuned.output
    assert not list(project.root.glob("records/soft/*.json"))
    assert checked.failed == [f"benchmark:{CELL}"], checked.output
    for ran in (tuned, checked):
        assert f"on the board {key}: the package " in ran.output
        assert reason in ran.output
        assert "Traceback" not in ran.output
