"""One arm64 package from end to end on the emulated board: by doit, and in C++."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from doit_project import DoitProject, write_project
from emulated_board import compile_arrays, run_arrays, the_board

from tvmbuild.base.specs import Tolerance
from tvmbuild.cli import main
from tvmbuild.devices.model_worker import Load
from tvmbuild.devices.qemu.board import EmulatedBoard
from tvmbuild.devices.qemu.device import start_emulated
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.inputs import read_arrays
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.reference import read_reference

pytestmark = [pytest.mark.nightly, pytest.mark.compiler, pytest.mark.emulator, pytest.mark.timeout(1200)]

TARGETS = """\
targets:
  pi4:
    kind: llvm
    mcpu: cortex-a72
    mtriple: aarch64-linux-gnu
    num-cores: 2
    device: {qemu: aarch64}
"""


@pytest.fixture(scope="module")
def board() -> EmulatedBoard:
    return the_board()


@pytest.fixture(scope="module")
def project(board: EmulatedBoard, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> DoitProject:
    """A project whose single cell is built and was run on the board."""
    assert board.python.is_file()
    project = write_project(tmp_path_factory.mktemp("qemu"), digits, targets=TARGETS)
    ran = project.doit("strict=0")
    assert ran.code == 0, ran.output
    assert ran.steps[-1] == "benchmark:digits@pi4", ran.output
    return project


@pytest.fixture(scope="module")
def package(project: DoitProject) -> Path:
    return project.root / "build/cells/digits@pi4/digits-pi4.tar"


@pytest.fixture(scope="module")
def reference(project: DoitProject) -> Path:
    return project.root / "build/models/digits/reference.npz"


def test_doit_checks_the_numbers_and_times_nothing(project: DoitProject) -> None:
    result = json.loads((project.root / "build/cells/digits@pi4/result.json").read_text())
    assert (result["emulated"], result["latency_ms"], result["machine"]["cpu"]) == (True, None, "qemu aarch64")
    assert 0 < result["max_abs_error"] < 1e-3
    assert not (project.root / "build/history.jsonl").exists()
    assert "| digits | pi4 | ok | 0/" in (project.root / "build/report.md").read_text()
    assert "| — | — | — |" in (project.root / "build/report.md").read_text()
    tune = json.loads((project.root / "build/cells/digits@pi4/tune.json").read_text())
    assert tune["covered"] == 0  # nothing was measured
    again = project.doit()
    assert (again.code, again.steps) == (0, []), again.output


def test_wrong_numbers_are_an_error(project: DoitProject, tmp_path: Path) -> None:
    strict = project.copy(tmp_path)
    strict.edit("models.yaml", "{rtol: 1e-3, atol: 1e-3}", "{rtol: 0, atol: 0}")
    ran = strict.doit("benchmark:digits@pi4")
    assert (ran.code != 0, ran.failed) == (True, ["benchmark:digits@pi4"]), ran.output
    assert "the package computes wrong numbers: output Plus214_Output_0 is wrong" in ran.output


def test_bench_times_no_emulated_board(project: DoitProject) -> None:
    ran = project.tvmbuild("bench", "digits@pi4")
    assert ran.code == 1
    assert "digits@pi4 runs on an emulated board, where times are meaningless" in ran.output


@pytest.mark.nights(2)
def test_cpp_on_the_board(board: EmulatedBoard, package: Path, reference: Path, tmp_path: Path) -> None:
    got = run_arrays(board, compile_arrays(board, tmp_path), package, reference)
    assert compare(got, read_reference(reference).outputs, Tolerance()).problem is None


def test_the_run_command_runs_there(board: EmulatedBoard, package: Path, reference: Path, tmp_path: Path) -> None:
    assert board.python.is_file()
    outputs = tmp_path / "outputs.npz"
    command = ["run", str(package), "--inputs", str(reference), "--output", str(outputs), "--device", "qemu:aarch64"]
    assert main(command) == 0
    assert compare(read_arrays(outputs), read_reference(reference).outputs, Tolerance()).problem is None


def test_a_crash_on_the_board_is_said(board: EmulatedBoard, package: Path, reference: Path) -> None:
    with start_emulated(board, Load("tvm", package, reference, 2)) as worker:
        assert worker.threads in {1, 2}
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(TvmbuildError, match=r"the process that ran digits-pi4\.tar died of signal 9"):
            worker.outputs()


def test_the_emulated_cpu_is_the_targets(board: EmulatedBoard) -> None:
    assert board.variables("cortex-a72")["QEMU_CPU"] == "cortex-a72"
    assert "QEMU_CPU" not in board.variables("cortex-x925")
    assert "QEMU_CPU" not in board.variables()


def test_an_instruction_that_the_cpu_lacks_kills(board: EmulatedBoard, tmp_path: Path) -> None:
    """An instruction that the CPU lacks kills, as on the board: a Cortex-A72 has no dot products, a Cortex-A76 has."""
    source = 'void _start(void) { __asm__ volatile("sdot v0.4s, v1.16b, v2.16b; mov x8, 93; mov x0, 7; svc 0"); }'
    (tmp_path / "a.c").write_text(source)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-mcpu=cortex_a76", "-nostdlib"]
    subprocess.run([*command, "a.c", "-o", "a"], cwd=tmp_path, check=True)
    codes = {
        cpu: subprocess.run([board.qemu, tmp_path / "a"], env=board.variables(cpu), check=False).returncode
        for cpu in ("cortex-a72", "cortex-a76")
    }
    assert codes == {"cortex-a72": -signal.SIGILL, "cortex-a76": 7}
