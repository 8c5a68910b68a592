"""The command `tvmbuild debug` on a cell whose device is a board or a GPU, and whose compiler is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import doit_project
import pytest
from digits import OUTPUT
from doit_project import DoitProject, Ran, write_project
from emulated_board import the_board
from ssh_board import SshBoard, ssh_board

pytestmark = [pytest.mark.nightly, pytest.mark.compiler, pytest.mark.timeout(1200)]
PATIENCE_S = 900
"""The longest that one command may take: it builds a dozen parts, and perhaps the board's program once."""

WRONG = Path(__file__).parent.parent / "support" / "wrong_gemm"
FAULTY = {"PYTHONPATH": os.pathsep.join(filter(None, [str(WRONG), os.environ.get("PYTHONPATH")]))}
"""The environment in which the compiler is wrong."""
GEMM = f"first wrong place: Gemm Gemm_0, output {OUTPUT}"
X86 = "targets:\n  pc: {kind: llvm, mcpu: x86-64, mtriple: x86_64-linux-gnu, num-cores: 2, device: DEVICE}\n"
ARM = "targets:\n  pc: {kind: llvm, mcpu: cortex-a72, mtriple: aarch64-linux-gnu, num-cores: 2, device: DEVICE}\n"
SOFT = """\
targets:
  pc:
    kind: vulkan
    family: lavapipe
    host: {mcpu: x86-64, mtriple: x86_64-linux-gnu, num-cores: 1}
    device: DEVICE
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doit_project, "TIMEOUT_S", PATIENCE_S)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[SshBoard]:
    with ssh_board(tmp_path) as running:
        yield running


def build(folder: Path, digits: Path, targets: str, device: str) -> DoitProject:
    """Return a project whose single cell was built by the wrong compiler."""
    project = write_project(folder, digits, targets=targets.replace("DEVICE", device))
    built = project.doit("compile:digits@pc", "tune=never", **FAULTY)
    assert built.code == 0, built.output
    return project


def check_named(ran: Ran) -> None:
    assert (ran.code, GEMM in ran.output.splitlines()) == (1, True), ran.output
    assert "this CPU computed the model in its place" not in ran.output


@pytest.mark.ssh
def test_the_operator_is_named_over_ssh(board: SshBoard, digits: Path, tmp_path: Path) -> None:
    project = build(tmp_path, digits, X86, "{ssh: board}")
    check_named(project.tvmbuild("debug", "digits@pc", "--all", "--reduce", PATH=board.path, **FAULTY))
    assert list(board.temporary.iterdir()) == []
    folder = project.root / "build/debug/digits@pc"
    assert {path.name for path in folder.iterdir()} == {"places.html", "places.json", "reduced.npz", "reduced.onnx"}


@pytest.mark.ssh
def test_a_board_that_cannot_be_reached_is_no_finding(board: SshBoard, digits: Path, tmp_path: Path) -> None:
    project = build(tmp_path, digits, X86, "{ssh: refused}")
    ran = project.tvmbuild("debug", "digits@pc", PATH=board.path, **FAULTY)
    assert (ran.code, "first wrong place" in ran.output) == (2, False), ran.output
    assert "error: no connection to the board refused: nothing answers ssh there" in ran.output
    assert "Traceback" not in ran.output


@pytest.mark.emulator
def test_the_operator_is_named_on_an_emulated_board(digits: Path, tmp_path: Path) -> None:
    assert the_board().python.is_file()
    check_named(build(tmp_path, digits, ARM, "{qemu: aarch64}").tvmbuild("debug", "digits@pc", **FAULTY))


@pytest.mark.vulkan
def test_the_operator_is_named_under_vulkan(digits: Path, tmp_path: Path) -> None:
    ran = build(tmp_path, digits, SOFT, "local").tvmbuild("debug", "digits@pc", **FAULTY)
    check_named(ran)
    assert "on this CPU" in next(line for line in ran.output.splitlines() if line.startswith("  still wrong: "))


@pytest.mark.ssh
@pytest.mark.vulkan
def test_the_operator_is_named_under_vulkan_over_ssh(board: SshBoard, digits: Path, tmp_path: Path) -> None:
    project = build(tmp_path, digits, SOFT, "{ssh: board}")
    check_named(project.tvmbuild("debug", "digits@pc", PATH=board.path, **FAULTY))
    assert list(board.temporary.iterdir()) == []
