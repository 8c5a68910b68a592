"""Packages on a board without Python: a real ssh to this machine."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doit_project import wait_for_line, write_project
from emulated_board import the_board
from ranged_nets import build_ranged_project, draw
from rpc_boards import wait_until
from small_package import build_package, change_package
from ssh_board import SshBoard, ssh_board, write_script

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import SshDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.cli import main
from tvmbuild.compiler.codegen.elf import read_elf
from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.devices.ssh.device import open_ssh
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.inputs import write_arrays
from tvmbuild.package.metadata import PackageTarget

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.compiler,
    pytest.mark.ssh,
    pytest.mark.timeout(1200),
]

TARGETS = """\
targets:
  pc:
    kind: llvm
    mcpu: x86-64
    mtriple: x86_64-linux-gnu
    num-cores: 2
    device: {ssh: board}
    benchmark: {number: 50, repeat: 2000}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBoard]:
    with ssh_board(tmp_path_factory.mktemp("ssh")) as board:
        yield board


@pytest.fixture
def board(running: SshBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshBoard:
    (tmp_path / "locks").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("PATH", running.path)
    return running


def fail(load: Load, host: str = "board") -> TvmbuildError:
    with pytest.raises(TvmbuildError) as caught, open_ssh(SshDevice(host)).start(load):
        pass
    return caught.value


@pytest.mark.nights(2)
def test_a_package_runs_on_a_board_and_leaves_nothing_there(board: SshBoard, load: Load) -> None:
    device = open_ssh(SshDevice("board"))
    assert not device.is_this_machine
    inputs = {name.removeprefix("input:"): value for name, value in np.load(load.reference).items()}
    with device.start(load) as worker, start_worker(load) as here:
        (folder,) = board.temporary.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        (program,) = board.find_programs()
        assert program.cwd() == str(folder)
        assert worker.threads == 2
        other = {name: value + 1 for name, value in inputs.items()}
        for got, want in (
            (worker.outputs(), here.outputs()),
            (worker.run(other), here.run(other)),
            (worker.outputs(), here.outputs()),
        ):
            assert got.keys() == want.keys()
            assert all(np.array_equal(got[name], want[name]) for name in want)
        worker.pause()
        watch = device.watch([worker])
        worker.resume()
        assert worker.warm_up(0.05) > 0
        assert len(worker.time(number=2, repeat=5)) == 5
        worker.pause()
        machine = watch.read()
        assert machine.cpu == cpu_name()
        assert machine.load is not None
        assert machine.cores >= 1
        assert machine.others is None or 0 <= machine.others <= 1
        worker.resume()
        assert 1 < (worker.peak_memory_mb() or 0) < 500
    wait_until(lambda: not program.is_running(), 20)
    wait_until(lambda: not list(board.temporary.iterdir()), 20)


@pytest.mark.usefixtures("board")
def test_any_batch_is_computed_in_parts_on_a_board(tmp_path: Path) -> None:
    package = build_ranged_project().package
    write_arrays(tmp_path / "in.npz", {f"input:{name}": value for name, value in draw(23).items()})
    whole = Load("tvm", package, tmp_path / "in.npz", 2)
    with open_ssh(SshDevice("board")).start(whole) as worker, start_worker(whole) as here:
        assert worker.outputs()["next"].shape == (2, 23, 3)
        for batch in (23, 2, 8):
            got, want = worker.run(draw(batch, 1)), here.run(draw(batch, 1))
            assert all(np.array_equal(got[name], want[name]) for name in want)
        assert worker.warm_up(0.05) > 0
        assert len(worker.time(number=2, repeat=3)) == 3
        with pytest.raises(TvmbuildError, match="net takes no B=41"):
            worker.run(draw(41))


def test_a_lost_connection_is_said_and_cleaned_up_after(board: SshBoard, load: Load) -> None:
    with open_ssh(SshDevice("board")).start(load) as worker:
        (program,) = board.find_programs()
        for each in board.find_connections():
            each.kill()
        with pytest.raises(DeviceLostError, match="the connection with the board board was lost: "):
            worker.outputs()
    wait_until(lambda: not program.is_running(), 20)
    wait_until(lambda: not list(board.temporary.iterdir()), 20)


def test_a_crash_on_the_board_is_said(board: SshBoard, load: Load) -> None:
    with open_ssh(SshDevice("board")).start(load) as worker:
        board.find_programs()[0].send_signal(signal.SIGILL)
        with pytest.raises(TvmbuildError, match=r"on the board board: the program .* died of SIGILL") as caught:
            worker.outputs()
    assert "build for another mcpu" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("host", "message", "hint"),
    [
        ("refused", "no connection to the board refused: nothing answers ssh there", "start sshd on the board"),
        ("stranger", "it lets nobody in without a password", "`ssh-copy-id stranger`"),
        ("unknown", "its host key is not known here", "`ssh unknown`"),
        ("nowhere", "there is no host of that name", "correct `ssh:` in targets.yaml"),
    ],
)
def test_a_board_that_cannot_be_reached(board: SshBoard, load: Load, host: str, message: str, hint: str) -> None:
    assert board.process.is_running()
    error = fail(load, host)
    assert message in error.message
    assert hint in (error.hint or "")
    assert not isinstance(error, DeviceLostError)  # it is not asked again


@pytest.mark.nights(2)
def test_another_machine_and_too_few_cores_are_said(board: SshBoard, load: Load, tmp_path: Path) -> None:
    target = PackageTarget("pi4", "llvm", FrozenMap({"mtriple": "aarch64-linux-gnu"}))
    other = Load("tvm", change_package(load.model, tmp_path / "pi4.tar", target=target), load.reference, 2)
    assert fail(other).message == "the board board is x86_64, and the package's code is for aarch64"
    error = fail(Load("tvm", load.model, load.reference, 999))
    assert "on the board board: 999 threads were asked for, and this process may use " in error.message
    wait_until(lambda: not list(board.temporary.iterdir()), 20)


def test_a_board_that_cannot_be_written_is_said(board: SshBoard, load: Load) -> None:
    board.temporary.rmdir()
    try:
        error = fail(load)
    finally:
        board.temporary.mkdir()
    assert "on the board board: the program that runs packages failed with exit code 1: mktemp: " in error.message


def test_without_ssh(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locks").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fail(load).message == "there is no ssh on this machine"


@pytest.mark.emulator
def test_arm64_code_on_a_board(load: Load, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files from this machine are arm64's; the board's own are x86-64's, except for the emulator."""
    arm64 = the_board()
    write_script(tmp_path / "own" / "emulate", f'exec {arm64.qemu} -L {arm64.root} ./arm64 "$@"')
    tar = f'/bin/tar "$@" && mv serve_model arm64 && cp {tmp_path}/own/emulate serve_model'
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    attributes: Attributes = FrozenMap({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu", "num-cores": 2})
    (tmp_path / "package").mkdir()
    package = build_package(digits, tmp_path / "package", attributes)
    with ssh_board(tmp_path, {"uname": "echo aarch64", "tar": tar}) as board, start_worker(load) as here:
        monkeypatch.setenv("PATH", board.path)
        with open_ssh(SshDevice("board")).start(replace(load, model=package)) as worker:
            (folder,) = board.temporary.iterdir()
            assert {read_elf(folder / name).machine for name in ("arm64", "libtvm_runtime.so")} == {"aarch64"}
            got, want = worker.outputs(), here.outputs()
            assert all(np.allclose(got[name], want[name], rtol=1e-3, atol=1e-3) for name in want)
            assert len(worker.time(number=1, repeat=2)) == 2


def test_doit_times_a_cell_on_a_board_or_is_interrupted(board: SshBoard, digits: Path, tmp_path: Path) -> None:
    project = write_project(tmp_path, digits, targets=TARGETS)
    path = project.root / "build/cells/digits@pc/result.json"
    process = project.start("strict=0", "benchmark:digits@pc")
    wait_for_line(process, ".  benchmark:digits@pc")
    wait_until(lambda: bool(board.find_programs()))
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    assert "interrupted: nothing half-written is left" in output
    assert "Traceback" not in output
    assert not path.exists()
    wait_until(lambda: not list(board.temporary.iterdir()), 20)
    project.edit("targets.yaml", "repeat: 2000", "repeat: 5")
    ran = project.doit("strict=0", "benchmark:digits@pc")
    assert (ran.code, ran.steps) == (0, ["benchmark:digits@pc"]), ran.output
    result = json.loads(path.read_text())
    assert result["latency_ms"]["median"] > 0
    assert (result["baselines"], result["operators"]) == ([], [])
    assert 0 < result["max_abs_error"] < 1e-3
    wait_until(lambda: not list(board.temporary.iterdir()), 20)


def test_the_run_command_runs_there(board: SshBoard, load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    assert board.process.is_running()
    command = ["run", str(load.model), "--device", "ssh:board"]
    assert main([*command, "--print-time", "--repeat", "3"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Plus214_Output_0" in printed
    assert "(3 samples of 1 call, 2 threads)" in printed
    assert main([*command, "--profile"]) == 1
    assert "error: board gives no times of operators, because it has no Python" in capsys.readouterr().err
