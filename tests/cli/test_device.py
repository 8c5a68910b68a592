from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from other_processes import is_gone
from rpc_boards import board, end, find_sessions, free_port, running, tracker, wait_until

from tvmbuild.cli import main
from tvmbuild.cli.device.serve import check_versions, find_required
from tvmbuild.devices.rpc.supervisor import Serving, check_reachable
from tvmbuild.errors import TvmbuildError


def test_a_board_with_another_tvm_does_not_serve() -> None:
    check_versions("0.27.0", "0.27.0")
    check_versions(None, "0.27.0")  # run from a checkout: nothing to compare with
    with pytest.raises(TvmbuildError, match=r"this board has TVM 0\.24\.0, and this tvmbuild's packages are for 0\.27"):
        check_versions("0.27.0", "0.24.0")
    with pytest.raises(TvmbuildError, match="there is no TVM on this board") as caught:
        check_versions("0.27.0", None)
    assert caught.value.hint == "`pip install apache-tvm==0.27.0`"


def test_the_version_is_that_of_our_own_requirement() -> None:
    found = find_required()
    assert found is not None
    assert found.startswith("0.27.")


@pytest.mark.parametrize(
    "serving",
    [
        Serving(("127.0.0.1", 9190), "pc"),
        Serving(("localhost", 9190), "pc"),
        Serving(("192.168.1.10", 9190), "pc", host="192.168.1.20"),
        Serving(("192.168.1.10", 9190), "pc", address="192.168.1.20"),
    ],
)
def test_a_server_that_can_be_reached(serving: Serving) -> None:
    check_reachable(serving)


def test_a_server_that_nobody_could_reach_is_refused() -> None:
    with pytest.raises(TvmbuildError, match=r"would answer on 127\.0\.0\.1 only, and its tracker is on 10\.0\.0\.5"):
        check_reachable(Serving(("10.0.0.5", 9190), "pc"))


@pytest.mark.parametrize("text", ["pi", "pi:", ":9190", "pi:0", "pi:99999", "pi:x"])
def test_what_is_no_address(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["device", "ls", "--tracker", text])
    assert f"argument --tracker: {text} is not HOST:PORT" in capsys.readouterr().err


@pytest.mark.usefixtures("own_folder")
def test_ls_without_a_tracker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "models.yaml").write_text("models: {}\n")
    (tmp_path / "targets.yaml").write_text("targets:\n  pc: {kind: llvm, mtriple: x86_64-linux-gnu, num-cores: 1}\n")
    assert main(["device", "ls"]) == 1
    assert "no target has a device behind a tracker" in capsys.readouterr().err


@pytest.mark.usefixtures("own_folder")
def test_ls_of_a_tracker_that_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert main(["device", "ls", "--tracker", address]) == 1
    assert f"no RPC tracker answers at {address}" in capsys.readouterr().out


@pytest.mark.compiler
@pytest.mark.usefixtures("own_folder")
def test_ls_knows_the_targets_of_a_board_and_boards_that_are_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tracker(tmp_path) as address, board(address, "pc", tmp_path):
        target = "{{kind: llvm, mtriple: x86_64-linux-gnu, num-cores: 1, device: {{rpc: {{tracker: '{}', key: {}}}}}}}"
        (tmp_path / "models.yaml").write_text("models: {}\n")
        (tmp_path / "targets.yaml").write_text(
            f"targets:\n  one: {target.format(address, 'pc')}\n  two: {target.format(address, 'pi')}\n"
        )
        assert main(["device", "ls"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if address in line]
    assert [line.split()[1] for line in lines] == ["pc", "pi"]
    assert "free" in lines[0]
    assert lines[0].rstrip().endswith("one")
    assert "not connected" in lines[1]
    assert lines[1].rstrip().endswith("two")


@pytest.mark.compiler
def test_a_tracker_answers_this_machine_alone_and_its_port_is_its_own(tmp_path: Path) -> None:
    with tracker(tmp_path) as address:
        port = address.rpartition(":")[2]
        command = [sys.executable, "-m", "tvmbuild", "device", "tracker", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert f"no tracker can answer on 127.0.0.1:{port}: Address already in use" in done.stderr


@pytest.mark.compiler
def test_ctrl_c_ends_a_server_with_all_that_it_has_started(tmp_path: Path) -> None:
    with tracker(tmp_path) as address, board(address, "pc", tmp_path) as supervisor:
        server = supervisor.children()[0]
        assert find_sessions(supervisor) == []
        end(supervisor)
        wait_until(lambda: is_gone(supervisor) and is_gone(server))
    assert "stopped" in (tmp_path / "pc-0.log").read_text()


@pytest.mark.compiler
def test_a_server_waits_for_its_tracker(tmp_path: Path) -> None:
    arguments = ["-m", "tvmbuild", "device", "serve", "--tracker", f"127.0.0.1:{free_port()}", "--key", "pc"]
    log = tmp_path / "log"
    with running([*arguments, "--port", str(free_port()), "--cpu", "any"], log) as supervisor:
        wait_until(lambda: "it is asked again until it does" in log.read_text())
        wait_until(lambda: "retry in 5 secs" in log.read_text())
        assert supervisor.is_running()
