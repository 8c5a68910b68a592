"""Tests that are too long for one run and are shared out among several: each night runs its part.

TESTS_NIGHT names the night, a number; without it the day does. TESTS_NIGHT=all runs every part.
TESTS_SHARED_BY=3 shares out all tests, not only the marked ones.
A run of the whole suite has an eighth of the tests with the mark `compiler` that are not sampled; a run that names
files or folders has them all.

`sampled(3)` keeps three cases of a parametrised test in the quick run and makes the others nightly.
Each night keeps the next three, so the quick run alone runs every case in turn.
"""

from __future__ import annotations

import os
import time
from binascii import crc32
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

import pytest

VARIABLE = "TESTS_NIGHT"
SHARED_BY = "TESTS_SHARED_BY"
ALL = "all"
WHOLE = "TESTS_WHOLE_SUITE"
COMPILER_NIGHTS = 8
"""The nights that share the tests with the real compiler, which take 85 % of the suite's CPU time."""
OTHER_NIGHT = "another night"
_DAY_S = 86400
_Item = TypeVar("_Item")


def begin_night() -> str:
    """Set TESTS_NIGHT and return it; pytest's workers inherit it, so that midnight does not separate them."""
    return os.environ.setdefault(VARIABLE, str(int(time.time()) // _DAY_S))


def note_whole_run(config: pytest.Config) -> None:
    """Note for this process and its workers, which inherit its environment, whether the whole suite runs.

    It does if the command line names no file and no folder, in the project's own folder.
    """
    if not hasattr(config, "workerinput"):
        os.environ[WHOLE] = "1" if config.args_source is config.ArgsSource.TESTPATHS else ""


def share(items: Iterable[_Item], nights: int) -> list[_Item]:
    """Return this night's part of the items, every ``nights``-th."""
    night = begin_night()
    listed = list(items)
    return listed if night == ALL else listed[int(night) % nights :: nights]


def draws(examples: int) -> int:
    """Return a third of a costly test's drawn examples, at least two; TESTS_NIGHT=all draws all.

    Hypothesis draws others in each run, so that the runs of three days draw as many.
    """
    return examples if begin_night() == ALL else min(examples, max(2, examples // 3))


def skip_other_nights(tests: Iterable[pytest.Item]) -> None:
    """Mark as skipped the tests of other nights: those with the mark `nights`, of the compiler, or of all tests."""
    by_nights: defaultdict[int, list[pytest.Item]] = defaultdict(list)
    for test in tests:
        by_nights[_count_nights(test)].append(test)
    for nights, candidates in by_nights.items():
        tonight = set(share(candidates, nights))
        for test in candidates:
            if test not in tonight:
                test.add_marker(pytest.mark.skip(f"{OTHER_NIGHT}: {VARIABLE}={ALL} runs all"))


def _count_nights(test: pytest.Item) -> int:
    """Return the number of nights that run the test once."""
    said = test.get_closest_marker("nights")
    marks = {mark.name for mark in test.iter_markers()}
    is_shared = os.environ.get(WHOLE) and "compiler" in marks and "sampled" not in marks
    return max(int(os.environ.get(SHARED_BY, "1")), said.args[0] if said else 1, COMPILER_NIGHTS if is_shared else 1)


def sample_cases(tests: Iterable[pytest.Item]) -> None:
    """Mark as nightly the cases of the tests with the mark `sampled` that are not this night's.

    Each kind of case has its own sample, and the marks tell the kinds apart: a device's mark, for example.
    """
    night = begin_night()
    if night == ALL:
        return
    kinds: defaultdict[tuple[str, frozenset[str]], list[pytest.Function]] = defaultdict(list)
    for test in tests:
        if isinstance(test, pytest.Function) and hasattr(test, "callspec") and test.get_closest_marker("sampled"):
            marks = frozenset(mark.name for mark in test.iter_markers())
            kinds[test.nodeid.partition("[")[0], marks].append(test)
    for cases in kinds.values():
        said = cases[0].get_closest_marker("sampled")
        assert said is not None
        ordered, number = _spread(cases), min(said.args[0], len(cases))
        first = int(night) * number
        tonight = {ordered[(first + place) % len(ordered)] for place in range(number)}
        for case in cases:
            if case not in tonight:
                case.add_marker(pytest.mark.nightly)


def _spread(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Order the cases so that each has the parameters' values that are longest ago: neighbours differ in all."""
    ordered: list[pytest.Function] = []
    left = sorted(cases, key=lambda case: crc32(case.nodeid.encode()))  # a file's neighbours resemble each other
    last: dict[tuple[str, int], int] = {}
    while left:
        case = min(left, key=lambda each: sum(last.get(value, 0) for value in each.callspec.indices.items()))
        left.remove(case)
        ordered.append(case)
        last.update(dict.fromkeys(case.callspec.indices.items(), len(ordered)))
    return ordered
