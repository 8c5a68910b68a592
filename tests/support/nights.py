"""Tests that are too long for one night and are shared out among several: each night runs its part.

TESTS_NIGHT names the night, a number; without it the day does. TESTS_NIGHT=all runs every part.
TESTS_SHARED_BY=3 shares out all tests, not only the marked ones.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

import pytest

VARIABLE = "TESTS_NIGHT"
SHARED_BY = "TESTS_SHARED_BY"
ALL = "all"
OTHER_NIGHT = "another night"
_DAY_S = 86400
_Item = TypeVar("_Item")


def begin_night() -> str:
    """Set TESTS_NIGHT and return it; pytest's workers inherit it, so that midnight does not separate them."""
    return os.environ.setdefault(VARIABLE, str(int(time.time()) // _DAY_S))


def share(items: Iterable[_Item], nights: int) -> list[_Item]:
    """Return this night's part of the items, every ``nights``-th."""
    night = begin_night()
    listed = list(items)
    return listed if night == ALL else listed[int(night) % nights :: nights]


def skip_other_nights(tests: Iterable[pytest.Item]) -> None:
    """Mark as skipped the tests of other nights: those with the mark `nights`, or of all tests."""
    by_nights: defaultdict[int, list[pytest.Item]] = defaultdict(list)
    least = int(os.environ.get(SHARED_BY, "1"))
    for test in tests:
        said = test.get_closest_marker("nights")
        by_nights[max(least, said.args[0] if said else 1)].append(test)
    for nights, candidates in by_nights.items():
        tonight = set(share(candidates, nights))
        for test in candidates:
            if test not in tonight:
                test.add_marker(pytest.mark.skip(f"{OTHER_NIGHT}: {VARIABLE}={ALL} runs all"))
