from __future__ import annotations

import time

from tvmbuild.package.timing import time_calls, warm_up


def test_samples_are_ms_a_call() -> None:
    samples = time_calls(lambda: time.sleep(0.005), number=2, repeat=3)
    assert len(samples) == 3
    assert all(5 <= sample < 50 for sample in samples)


def test_warming_up_takes_its_time_and_tells_the_last_call() -> None:
    calls: list[float] = []

    def call() -> None:
        time.sleep(0.002)
        calls.append(time.perf_counter())

    start = time.perf_counter()
    last = warm_up(call, 0.05)
    assert 0.05 <= time.perf_counter() - start < 5
    assert len(calls) > 3
    assert 2 <= last < 1000


def test_even_a_slow_call_is_made_twice_only() -> None:
    calls: list[int] = []
    warm_up(lambda: calls.append(1), 0.0)
    assert len(calls) == 2


def test_each_sample_is_followed_by_a_beat() -> None:
    events: list[str] = []
    time_calls(lambda: events.append("call"), 2, 2, lambda: events.append("beat"))
    assert events == ["call", "call", "beat"] * 2
