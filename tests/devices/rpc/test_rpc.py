"""Packages on a board: tracker, server and this machine's code communicate over loopback, as over a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from other_processes import is_gone
from ranged_nets import build_ranged_project, draw
from rpc_boards import (
    CPU,
    OLD,
    board,
    count_boards,
    count_free,
    find_sessions,
    find_workers,
    free_port,
    running,
    tracker,
    wait_until,
)

from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.cli import main
from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.devices.rpc.device import lock_name, open_rpc
from tvmbuild.devices.rpc.supervisor import Serving
from tvmbuild.devices.rpc.tracker import request_board
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.inputs import write_arrays

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rpc")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with tracker(folder) as found:
        yield found


@pytest.fixture(scope="module")
def supervisor(address: str, folder: Path) -> Iterator[psutil.Process]:
    with board(address, "pc", folder) as process:
        yield process


@pytest.fixture
def spec(address: str, supervisor: psutil.Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RpcDevice:
    """A board that is ready."""
    assert supervisor.is_running()
    (tmp_path / "locks").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "locks"))
    wait_until(lambda: count_free(address, "pc") == 1)
    return RpcDevice(address, "pc", timeout_s=30.0)


def test_a_package_runs_on_a_board_and_leaves_nothing_there(
    spec: RpcDevice, load: Load, supervisor: psutil.Process
) -> None:
    device = open_rpc(spec)
    assert not device.is_this_machine
    inputs = {name.removeprefix("input:"): value for name, value in np.load(load.reference).items()}
    with device.start(load) as worker:
        (remote,) = find_workers(supervisor)
        session_folder = Path(find_sessions(supervisor)[0].cwd())
        assert len(list(session_folder.iterdir())) == 2
        first = worker.outputs()
        again = worker.run(inputs)
        other = worker.run({name: value + 1 for name, value in inputs.items()})
        assert worker.threads == 2
        assert remote.environ()["TVM_NUM_THREADS"] == "2"
        worker.pause()
        watch = device.watch([worker])
        worker.resume()
        assert len(worker.time(number=2, repeat=5)) == 5
        assert worker.profile(3).rows
        worker.pause()
        assert watch.read().cores >= 1
        assert len(list(session_folder.iterdir())) == 2
    for name, value in first.items():
        assert np.array_equal(value, again[name])
        assert not np.array_equal(value, other[name])
    wait_until(lambda: not session_folder.exists())
    wait_until(lambda: is_gone(remote))


def test_any_batch_is_computed_in_parts_on_a_board(spec: RpcDevice, tmp_path: Path) -> None:
    package = build_ranged_project().package
    write_arrays(tmp_path / "in.npz", {f"input:{name}": value for name, value in draw(23).items()})
    whole = Load("tvm", package, tmp_path / "in.npz", 2)
    with open_rpc(spec).start(whole) as worker, start_worker(whole) as here:
        for got, want in ((worker.outputs(), here.outputs()), (worker.run(draw(2)), here.run(draw(2)))):
            assert all(np.array_equal(got[name], want[name]) for name in want)
        assert len(worker.time(number=2, repeat=3)) == 3


def test_a_lost_session_is_said_and_its_server_started_again(
    spec: RpcDevice, load: Load, supervisor: psutil.Process
) -> None:
    device = open_rpc(spec)
    with device.start(load) as worker:
        (session,), (server,) = find_sessions(supervisor), supervisor.children()
        session.kill()
        with pytest.raises(DeviceLostError, match=r"the session with the board pc of .* was lost: the board's server"):
            worker.outputs()
    wait_until(lambda: is_gone(server))
    with device.start(load) as worker:
        assert worker.outputs()


@pytest.mark.nightly
def test_a_board_that_hangs_is_given_up(spec: RpcDevice, load: Load, supervisor: psutil.Process) -> None:
    with open_rpc(replace(spec, timeout_s=5.0)).start(load) as worker:
        (session,), (server,) = find_sessions(supervisor), supervisor.children()
        session.suspend()
        with pytest.raises(DeviceLostError, match="it gave no answer within 5 s"):
            worker.outputs()
        session.kill()
    # The listener ends with it, a moment later; until then it would take sessions that die with it.
    wait_until(lambda: is_gone(server))
    wait_until(lambda: count_boards(spec.tracker, "pc") == 1)


def test_a_crash_of_the_package_ends_no_server(spec: RpcDevice, load: Load, supervisor: psutil.Process) -> None:
    device, (server,) = open_rpc(spec), supervisor.children()
    with device.start(load) as worker:
        find_workers(supervisor)[0].kill()
        with pytest.raises(TvmbuildError, match=r"on the board pc: the process that ran 1-net.tar died of signal 9"):
            worker.outputs()
    with device.start(load) as worker:
        assert worker.outputs()
    # A session that crashes ends it, and another is started.
    assert supervisor.children() == [server]


def test_two_at_once_take_turns(spec: RpcDevice, load: Load) -> None:
    order, first_runs, told = [], threading.Event(), list[str]()

    def run_first() -> None:
        with open_rpc(spec).start(load) as worker:
            first_runs.set()
            wait_until(lambda: f"waiting for the device {lock_name(spec)}" in told)
            worker.outputs()
            order.append("first")

    thread = threading.Thread(target=run_first)
    thread.start()
    assert first_runs.wait(60)
    with progress_shown_by(told.append), open_rpc(spec).start(load) as worker:
        worker.outputs()
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_busy_boards_are_waited_for_so_long(spec: RpcDevice, load: Load) -> None:
    with (
        open_rpc(spec).start(load),
        pytest.raises(TvmbuildError, match=r"no board pc of the tracker at .* was free within 1 s") as caught,
    ):
        request_board(spec.tracker, "pc", 1.0)
    assert "wait_s" in (caught.value.hint or "")


def test_an_unknown_key_says_what_there_is_and_how_to_start_one(
    spec: RpcDevice, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvmbuild.devices.rpc.device.RESTART_S", 0.1)
    with (
        pytest.raises(TvmbuildError, match="knows no board with the key pc4: it has pc") as caught,
        open_rpc(replace(spec, key="pc4")).start(load),
    ):
        pass
    assert f"`tvmbuild device serve --tracker {spec.tracker} --key pc4`" in (caught.value.hint or "")
    assert "Did you mean pc?" in (caught.value.hint or "")


def test_another_tvm_is_said(spec: RpcDevice, load: Load, folder: Path) -> None:
    host, _, port = spec.tracker.rpartition(":")
    serving = json.dumps(asdict(Serving((host, int(port)), "old", port=free_port(), cpu=CPU)))
    with running(["-c", OLD, serving], folder / "old.log"):
        wait_until(lambda: count_boards(spec.tracker, "old") == 1)
        with (
            pytest.raises(TvmbuildError, match=r"the board old has TVM 0\.24\.0, this machine ") as caught,
            open_rpc(replace(spec, key="old")).start(load),
        ):
            pass
    assert "on the board: `pip install apache-tvm==" in (caught.value.hint or "")


def test_a_plain_server_of_tvm_is_said(spec: RpcDevice, load: Load, folder: Path) -> None:
    port = free_port()
    arguments = ["-m", "tvm.exec.rpc_server", "--host", "127.0.0.1", "--port", str(port), "--port-end", str(port + 9)]
    with running([*arguments, "--tracker", spec.tracker, "--key", "plain"], folder / "plain.log"):
        wait_until(lambda: count_boards(spec.tracker, "plain") == 1)
        with (
            pytest.raises(TvmbuildError, match="the board plain runs TVM's plain RPC server") as caught,
            open_rpc(replace(spec, key="plain")).start(load),
        ):
            pass
    assert "tvmbuild device serve" in (caught.value.hint or "")


def test_ls_shows_free_and_busy_boards(spec: RpcDevice, load: Load) -> None:
    command = [sys.executable, "-m", "tvmbuild", "device", "ls", "--tracker", spec.tracker]

    def list_row() -> list[str]:
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"})
        return next(line.split() for line in done.stdout.splitlines() if spec.tracker in line)

    row = list_row()
    assert row[1] == "pc"
    assert row[3:6] == ["free", "x86_64", CPU]
    with open_rpc(spec).start(load):
        assert list_row()[3:] == ["busy"]


def test_the_run_command_runs_there(spec: RpcDevice, load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    device = f"rpc:{spec.tracker}/pc"
    assert main(["run", str(load.model), "--device", device, "--profile", "--print-time", "--repeat", "3"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Plus214_Output_0" in printed
    assert "(3 samples of 1 call, 2 threads)" in printed
    assert "latency without profiler" in printed
    assert "peak with" not in printed  # it would be this machine's
