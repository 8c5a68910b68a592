from __future__ import annotations

import pytest

from tvmbuild.base.pace import Pace, describe_left


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rate_and_what_is_left_are_told_when_they_are_known() -> None:
    clock = Clock()
    pace = Pace("timing", 20, "rounds", clock)
    assert pace.describe(0) == "timing: 0 of 20 rounds"
    clock.now += 0.5
    assert pace.describe(1) == "timing: 1 of 20 rounds"
    clock.now += 1.5
    assert pace.describe(5) == "timing: 5 of 20 rounds, 6 s left, 2.5/s"
    assert pace.describe(20) == "timing: 20 of 20 rounds, 0 s left, 10/s"


def test_without_a_total_there_is_nothing_left() -> None:
    clock = Clock()
    pace = Pace("downloading x", None, "MB", clock)
    clock.now += 2
    assert pace.describe(500) == "downloading x: 500 MB, 250/s"


@pytest.mark.parametrize(("seconds", "text"), [(4.4, "4 s"), (720, "12 min"), (5400, "90 min"), (9000, "2.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert describe_left(seconds) == text
