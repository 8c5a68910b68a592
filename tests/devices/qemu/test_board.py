"""Boards that are absent, half made, stale, or cannot be made: no network, no emulator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from doit_project import write_project
from small_package import change_package

from tvmbuild.base.device_specs import QemuDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.cli import main
from tvmbuild.devices.model_worker import Load
from tvmbuild.devices.qemu.board import (
    EmulatedBoard,
    boards_folder,
    explain_absence,
    find_board,
    list_boards,
    list_requirements,
    tvm_versions,
    write_board,
)
from tvmbuild.devices.qemu.debian import AptError
from tvmbuild.devices.qemu.device import open_qemu, start_emulated
from tvmbuild.devices.qemu.make import _publish, make_board, remove_board
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageTarget

TARGETS = """\
targets:
  pi4: {kind: llvm, mcpu: cortex-a72, mtriple: aarch64-linux-gnu, num-cores: 2, device: {qemu: aarch64}}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made() -> EmulatedBoard:
    """The parts of a board that the planner checks."""
    board = EmulatedBoard(boards_folder() / "aarch64", "3.11", tvm_versions(), ("cortex-a72",), ("libc6.deb",))
    board.python.parent.mkdir(parents=True)
    board.python.touch()
    write_board(board)
    return board


def test_a_board_is_found(made: EmulatedBoard) -> None:
    assert find_board("aarch64") == made
    assert list_boards() == ("aarch64",)
    assert make_board("aarch64") == made  # nothing is done again


def test_pins_are_those_of_the_metadata() -> None:
    assert tvm_versions().split() == list_requirements(("apache-tvm", "apache-tvm-ffi"))
    assert all("==" in pin for pin in tvm_versions().split())


def test_no_board() -> None:
    assert (find_board("aarch64"), list_boards()) == (None, ())
    with pytest.raises(TvmbuildError) as caught:
        open_qemu(QemuDevice("aarch64"))
    assert caught.value.message == (
        "the emulated board aarch64 is not made, or not for this TVM; `tvmbuild device emulator make aarch64` makes it"
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 0}', '{"format": 1, "tvm": 3}'])
def test_a_damaged_board_counts_as_none(made: EmulatedBoard, text: str) -> None:
    (made.folder / "board.json").write_text(text)
    assert find_board("aarch64") is None


def test_a_board_for_another_tvm_counts_as_none(made: EmulatedBoard) -> None:
    write_board(replace(made, tvm="apache-tvm==0.1 apache-tvm-ffi==0.1"))
    assert find_board("aarch64") is None


def test_a_board_without_its_python_counts_as_none(made: EmulatedBoard) -> None:
    made.python.unlink()
    assert find_board("aarch64") is None


def test_beside_tvmbuild_the_board_sees_nothing_of_this_machine(made: EmulatedBoard) -> None:
    site, ours = made.variables()["PYTHONPATH"].split(":")
    assert site == str(made.folder / "site-packages")
    assert [path.name for path in Path(ours).iterdir()] == ["tvmbuild"]
    assert (Path(ours) / "tvmbuild" / "devices" / "serve_model.py").is_file()
    assert made.variables() == made.variables()


def test_removing(made: EmulatedBoard, capsys: pytest.CaptureFixture[str]) -> None:
    (boards_folder() / ".aarch64.killed").mkdir()
    assert main(["device", "emulator", "rm", "aarch64"]) == 0
    assert capsys.readouterr().out == "removed the emulated board aarch64\n"
    assert not made.folder.exists()
    assert sorted(path.name for path in boards_folder().iterdir()) == ["aarch64.lock"]
    assert remove_board("aarch64") is False
    assert main(["device", "emulator", "rm", "aarch64"]) == 0
    assert capsys.readouterr().out == "there is no emulated board aarch64\n"


def test_without_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["device", "emulator", "make", "aarch64"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: the emulated board is made of Debian's packages, and there is no apt-get here\n")
    assert "docs/how-to/devices.md" in said


def _fake_system(folder: Path, apt: str) -> str:
    """Return a PATH with dpkg, and an apt-get that runs the shell script."""
    folder.mkdir()
    for name, script in (("apt-get", apt), ("dpkg", "echo amd64"), ("dpkg-deb", "exit 1")):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_sources_without_that_architecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt = 'case "$*" in *install*) echo "E: Unable to locate package python3-minimal" >&2; exit 100;; esac'
    monkeypatch.setenv("PATH", _fake_system(tmp_path / "bin", apt))
    with pytest.raises(TvmbuildError) as caught:
        make_board("aarch64")
    assert caught.value.message == (
        "apt-get install of packages for arm64 failed: E: Unable to locate package python3-minimal"
    )
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("check the network and apt's sources: they must offer packages for that")
    assert sorted(path.name for path in boards_folder().iterdir()) == ["aarch64.lock"]


def test_a_killed_maker_leaves_nothing_that_looks_made(tmp_path: Path, cache: Path) -> None:
    started = tmp_path / "started"
    path = _fake_system(tmp_path / "bin", f"touch {started}; sleep 60 >&- 2>&-")
    command = [sys.executable, "-m", "tvmbuild", "device", "emulator", "make", "aarch64"]
    environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(cache)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert find_board("aarch64") is None
    assert len(list(boards_folder().glob(".aarch64.*"))) == 1
    remove_board("aarch64")
    assert sorted(path.name for path in boards_folder().iterdir()) == ["aarch64.lock"]


def test_a_new_board_takes_the_old_ones_place(made: EmulatedBoard) -> None:
    unfinished = boards_folder() / ".aarch64.new"
    unfinished.mkdir()
    (unfinished / "board.json").write_text("new")
    _publish(unfinished, made.folder)
    assert (made.folder / "board.json").read_text() == "new"
    assert sorted(path.name for path in boards_folder().iterdir()) == ["aarch64"]


def test_a_maker_that_fails_leaves_the_stale_board(
    made: EmulatedBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_board(stale := replace(made, tvm="apache-tvm==0.1"))
    before = (stale.folder / "board.json").read_bytes()
    monkeypatch.setenv("PATH", _fake_system(tmp_path / "bin", "echo 'E: no network' >&2; exit 100"))
    with pytest.raises(AptError, match=r"^apt-get update of packages for arm64(, amd64)? failed: E: no network"):
        make_board("aarch64")
    assert (stale.folder / "board.json").read_bytes() == before
    assert sorted(path.name for path in boards_folder().iterdir()) == ["aarch64", "aarch64.lock"]


@pytest.mark.compiler
def test_doit_without_the_board(digits: Path, tmp_path: Path) -> None:
    project = write_project(tmp_path / "p", digits, targets=TARGETS)
    ran = project.doit()
    assert (ran.code, ran.steps[-1]) == (0, "validate:digits@pi4"), ran.output
    assert explain_absence("aarch64") in " ".join(ran.output.split())
    cell = project.root / "build/cells/digits@pi4"
    assert not (cell / "result.json").exists()
    assert project.temporaries() == []
    strict = project.doit("benchmark:digits@pi4", "strict=1")
    assert (strict.code != 0, strict.failed) == (True, ["benchmark:digits@pi4"]), strict.output
    assert "`tvmbuild device emulator make aarch64` makes it" in " ".join(strict.output.split())


@pytest.mark.compiler
def test_a_gpus_package_is_refused_in_the_plans_words(load: Load, tmp_path: Path) -> None:
    target = PackageTarget("gpu", "vulkan", FrozenMap(), FrozenMap({"mtriple": "aarch64-linux-gnu"}))
    there = replace(load, model=change_package(load.model, tmp_path / "gpu.tar", target=target))
    board = EmulatedBoard(tmp_path, "3.11", "", (), ())
    with pytest.raises(TvmbuildError, match="runs the code of CPUs, not of vulkan"), start_emulated(board, there):
        pass
