"""The tune stage with boards behind a tracker, which run on this machine; the small network's matmul is searched."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from rpc_boards import CPU, board, count_boards, find_workers, kill_tree, starting_board, tracker, wait_until

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.engine.outdated_schedule import find_outdated
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler

Place = tuple[str, list[psutil.Process]]
"""A tracker's address and its two boards."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        address = stack.enter_context(tracker(tmp_path))
        yield address, [stack.enter_context(board(address, "pc", tmp_path)) for _ in range(2)]


@pytest.fixture
def step(place: Place, tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> Step[TuneStep]:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    (tmp_path / "locks").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "locks"))
    attributes: Attributes = FrozenMap({"mcpu": "x86-64-v2", "mtriple": "x86_64-linux-gnu", "num-cores": 1})
    tune = TuneOptions(trials_per_task=16, ops=("matmul*",))
    device = RpcDevice(place[0], "pc", timeout_s=30.0, wait_s=60.0)
    return Step(
        stage="tune",
        subject="digits@pc",
        options=TuneStep("pc", "llvm", attributes, FrozenMap(), None, device, tune),
        inputs=FrozenMap({"model": digits}),
        outputs=FrozenMap({role: tmp_path / "build" / f"{role}.json" for role in ("tasks", "schedule", "info")}),
        root=tmp_path,
    )


def do_when_measured(step: Step[TuneStep], do: Callable[[], None]) -> threading.Thread:
    """Call ``do`` on another thread as soon as one candidate was measured."""
    journal = Layout(step.root).journal("pc", "any").parent

    def run() -> None:
        wait_until(lambda: any(path.stat().st_size for path in journal.glob("*.jsonl")))
        do()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def kill_when_measured(step: Step[TuneStep], boards: list[psutil.Process]) -> threading.Thread:
    """Kill the boards, including their sessions, at that moment."""

    def kill() -> None:
        for each in boards:
            kill_tree(each)

    return do_when_measured(step, kill)


@pytest.mark.nightly
def test_a_board_that_dies_costs_no_candidate(
    step: Step[TuneStep], place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    from tvmbuild.stages import tune

    address, boards = place
    killing = kill_when_measured(step, boards[:1])
    tune.run(step)
    killing.join()
    assert count_boards(address, "pc") == 1
    assert "candidates failed" not in capsys.readouterr().out
    assert json.loads(step.output("info").read_text())["measured_now"] == 16
    (path,) = Layout(step.root).records("pc").glob("*.json")
    task = json.loads(path.read_text())
    assert task["searched"] == {CPU: 16}
    assert {record["measured_on"] for record in task["records"]} == {CPU}
    assert find_outdated(step) is None
    named = replace(step, options=replace(step.options, measured_on="kitchen"))
    assert find_outdated(named) is None  # the only class there is


@pytest.mark.nightly
def test_a_board_that_joins_midway_gets_work(
    step: Step[TuneStep], place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvmbuild.stages import tune

    address, boards = place
    monkeypatch.setattr("tvmbuild.devices.rpc.boards.PAUSE_S", 0.5)
    kill_tree(boards[1])
    wait_until(lambda: count_boards(address, "pc") == 1)
    many = replace(
        step, options=replace(step.options, tune=TuneOptions(trials_per_task=96, ops=("matmul*",), patience=None))
    )
    worked, over = threading.Event(), threading.Event()

    def join() -> None:
        with starting_board(address, "pc", tmp_path) as process:
            wait_until(lambda: over.is_set() or bool(find_workers(process)))
            if not over.is_set():
                worked.set()
            over.wait()

    joining = do_when_measured(step, join)
    tune.run(many)
    over.set()
    joining.join()
    assert worked.is_set()
    assert json.loads(step.output("info").read_text())["measured_now"] == 96


@pytest.mark.nightly
def test_when_no_board_is_left_what_was_measured_is_kept(step: Step[TuneStep], place: Place) -> None:
    from tvmbuild.stages import tune

    killing = kill_when_measured(step, place[1])
    with pytest.raises(TvmbuildError, match="knows no board with the key pc: it has no board at all") as caught:
        tune.run(step)
    killing.join()
    assert "tvmbuild device serve" in (caught.value.hint or "")
    assert not step.output("schedule").exists()
    assert any(Layout(step.root).journal("pc", "any").parent.glob("*.jsonl"))
