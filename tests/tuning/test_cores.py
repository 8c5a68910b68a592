"""The split of cores between timing and building."""

from __future__ import annotations

import os

import pytest

from tvmbuild.tuning.cores import Cores, share_cores


@pytest.mark.parametrize(
    ("available", "threads", "expected"),
    [
        ({0, 1, 2, 3}, 2, Cores((0, 1), (2, 3))),
        ({0, 1}, 1, Cores((0,), (1,))),
        ({0, 1}, 2, Cores((0, 1), (0, 1))),
        ({2, 3, 4}, 1, Cores((2, 3, 4), (2, 3, 4))),  # TVM's runtime would bind its threads to core 0
    ],
)
def test_nothing_is_built_on_timing_cores_where_there_are_others(
    monkeypatch: pytest.MonkeyPatch, available: set[int], threads: int, expected: Cores
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: available)
    assert share_cores(threads, lambda core: frozenset({core})) == expected
    assert expected.overlap is (expected.timing != expected.building)


def test_hardware_threads_of_one_core_are_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(8)))
    assert share_cores(2, lambda core: frozenset({core, (core + 4) % 8})) == Cores((0, 1), (2, 3, 6, 7))
    assert share_cores(4, lambda core: frozenset({core, (core + 4) % 8})) == Cores(tuple(range(8)), tuple(range(8)))


def test_this_machine_has_cores() -> None:
    cores = share_cores(1)
    assert cores.timing
    assert set(cores.building) <= os.sched_getaffinity(0)
