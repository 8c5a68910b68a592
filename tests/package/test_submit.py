"""Calls that are submitted run in order on another thread, and the newest frame wins where that is asked for."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from small_package import build_package

import tvmbuild
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.call_queue import CallQueue, Start

T = TypeVar("T")


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


def call(function: Callable[[int], object], number: int) -> Start:
    """Return a call whose function runs while it is waited for."""
    return lambda: lambda: function(number)


MOST_CALLS = 2


def test_the_newest_call_replaces_the_one_that_waits() -> None:
    queue, gate = CallQueue(), Gate()
    running = queue.submit(call(gate, 0), newest=True)
    assert gate.entered.acquire(timeout=20)
    frames = [queue.submit(call(gate, number), newest=True) for number in range(1, 5)]
    gate.opened.release(2)
    assert (running.result(20), frames[-1].result(20)) == (0, 4)
    assert [each.cancelled() for each in frames] == [True, True, True, False]
    assert gate.seen == [0, 4]
    queue.close()


def test_a_done_call_keeps_nothing() -> None:
    """Without the collector, because a loop over frames would keep all of them until it runs."""
    queue, kept = CallQueue(), Gate()
    gone = weakref.ref(kept)
    future = queue.submit(call(kept, 0), newest=False)
    assert kept.entered.acquire(timeout=20)
    gc.disable()
    try:
        kept.opened.release()
        del kept
        assert future.result(20) == 0
        assert queue.submit(call(lambda number: number, 1), newest=False).result(20) == 1  # the thread has gone on
        assert gone() is None
    finally:
        gc.enable()
        queue.close()


def test_no_more_calls_wait_than_the_bound() -> None:
    queue, gate = CallQueue(), Gate()
    calls = [queue.submit(call(gate, number), newest=False) for number in range(MOST_CALLS)]
    blocked = threading.Thread(target=lambda: calls.append(queue.submit(call(gate, 9), newest=False)))
    blocked.start()
    blocked.join(0.3)
    assert blocked.is_alive()
    gate.opened.release(3)
    blocked.join(20)
    assert [each.result(20) for each in calls] == [*range(MOST_CALLS), 9]
    queue.close()


def within_20_s(function: Callable[[], T]) -> T:
    """Return the value of a function, and fail if it waits for ever."""
    result: Future[T] = Future()
    threading.Thread(target=lambda: result.set_result(function()), daemon=True).start()
    return result.result(20)


def test_the_callback_of_a_cancelled_call_can_submit() -> None:
    queue, gate = CallQueue(), Gate()
    queue.submit(call(gate, 0), newest=True)
    assert gate.entered.acquire(timeout=20)
    again: list[Future[int]] = []
    replaced = queue.submit(call(gate, 1), newest=True)
    replaced.add_done_callback(lambda _: again.append(queue.submit(call(gate, 3), newest=True)))
    newest = within_20_s(lambda: queue.submit(call(gate, 2), newest=True))
    gate.opened.release(2)
    assert again[0].result(20) == 3
    assert (replaced.cancelled(), newest.cancelled()) == (True, True)
    queue.close()


def test_the_callback_of_a_cancelled_call_can_close() -> None:
    queue, gate = CallQueue(), Gate()
    running = queue.submit(call(gate, 0), newest=False)
    assert gate.entered.acquire(timeout=20)
    queue.submit(call(gate, 1), newest=False).add_done_callback(lambda _: queue.close())
    within_20_s(queue.close)
    gate.opened.release()
    assert running.result(20) == 0


def test_a_callback_in_the_thread_cannot_wait_for_the_thread() -> None:
    queue = CallQueue()
    waiting: list[Future[int]] = []
    refused: Future[TvmbuildError] = Future()

    def fill(_: Future[int]) -> None:
        try:
            waiting.extend(queue.submit(call(abs, number), newest=False) for number in range(MOST_CALLS + 1))
        except TvmbuildError as error:
            refused.set_result(error)

    gate = Gate()
    first = queue.submit(call(gate, 0), newest=False)
    first.add_done_callback(fill)
    gate.opened.release()
    assert refused.result(20).message == "a callback cannot wait for room among the calls"
    assert [each.result(20) for each in waiting] == [*range(MOST_CALLS)]
    queue.close()


def test_a_closed_queue_takes_no_call_and_starts_no_thread() -> None:
    queue = CallQueue()
    assert queue.submit(call(abs, -1), newest=False).result(20) == 1
    queue.close()
    before = threading.active_count()
    for newest in (False, True):
        with pytest.raises(TvmbuildError, match="closed"):
            queue.submit(call(abs, -1), newest=newest)
    assert threading.active_count() <= before


def test_who_waits_for_room_learns_that_the_queue_is_closed() -> None:
    queue, gate = CallQueue(), Gate()
    for number in range(MOST_CALLS):
        queue.submit(call(gate, number), newest=False)
    errors: list[str] = []

    def wait_for_room() -> None:
        try:
            queue.submit(call(gate, 9), newest=False)
        except TvmbuildError as error:
            errors.append(error.message)

    blocked = threading.Thread(target=wait_for_room)
    blocked.start()
    blocked.join(0.3)
    queue.close()
    blocked.join(20)
    assert not blocked.is_alive(), "it does not wait for the call that runs"
    gate.opened.release(MOST_CALLS)
    assert len(errors) == 1
    assert "closed" in errors[0]


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
    with pytest.raises(TvmbuildError, match="closed"):
        session.submit({"Input3": values[0]})
