"""How cores are shared between timing and building."""

from __future__ import annotations

import os

import pytest

from tvmbuild.tuner.cores import Cores, share_cores


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
    assert share_cores(threads) == expected
    assert expected.overlap is (expected.timing != expected.building)
