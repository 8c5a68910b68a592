"""Calls that are submitted run in order on another thread, and the newest frame wins where that is asked for."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from pathlib import Path

import numpy as np
import pytest
from small_package import build_package

import tvmbuild
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.call_queue import MOST_CALLS, CallQueue


class Gate:
    """A function that waits until it is let through."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Semaphore(0), threading.Semaphore(0)
        self.seen: list[int] = []

    def __call__(self, number: int) -> int:
        self.entered.release()
        assert self.opened.acquire(timeout=20)
        self.seen.append(number)
        return number


def test_the_newest_call_replaces_the_one_that_waits() -> None:
    queue, gate = CallQueue(), Gate()
    running = queue.submit(gate, 0, newest=True)
    assert gate.entered.acquire(timeout=20)
    frames = [queue.submit(gate, number, newest=True) for number in range(1, 5)]
    gate.opened.release(2)
    assert (running.result(20), frames[-1].result(20)) == (0, 4)
    assert [each.cancelled() for each in frames] == [True, True, True, False]
    assert gate.seen == [0, 4]
    queue.close()


def test_no_more_calls_wait_than_the_bound() -> None:
    queue, gate = CallQueue(), Gate()
    calls = [queue.submit(gate, number, newest=False) for number in range(MOST_CALLS)]
    blocked = threading.Thread(target=lambda: calls.append(queue.submit(gate, 9, newest=False)))
    blocked.start()
    blocked.join(0.3)
    assert blocked.is_alive()
    gate.opened.release(3)
    blocked.join(20)
    assert [each.result(20) for each in calls] == [*range(MOST_CALLS), 9]
    queue.close()


@pytest.mark.compiler
def test_a_session_submits_and_a_closed_one_cancels(tmp_path: Path, digits: Path) -> None:
    values = [np.random.default_rng(seed).uniform(0, 1, (1, 1, 28, 28)).astype("float32") for seed in range(6)]
    session = tvmbuild.load(build_package(digits, tmp_path))
    want = [session.run({"Input3": value})["Plus214_Output_0"] for value in values]
    futures = [session.submit({"Input3": value}) for value in values]
    for future, expected in zip(futures, want, strict=True):
        np.testing.assert_array_equal(future.result(20)["Plus214_Output_0"], expected)
    with pytest.raises(TvmbuildError, match="x"):
        session.submit({"x": values[0]}).result(20)
    last = [session.submit({"Input3": values[0]}, newest=True) for _ in range(3)]
    session.close()
    assert not wait(last, timeout=20).not_done
