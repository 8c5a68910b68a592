from __future__ import annotations

from dataclasses import replace

import pytest
from benchmark_results import around, make_entry, make_result, rival

from tvmbuild.benchmarking.estimates import Estimate
from tvmbuild.benchmarking.regressions import (
    LEAST_REGRESSION,
    Change,
    Incomparable,
    compare_cell,
    compare_entries,
    describe_schedule,
)
from tvmbuild.benchmarking.results import Result

CELL = "net@cpu"


def result(ms: float, onnxruntime_ms: float = 4.0) -> Result:
    return make_result(CELL, ms, onnxruntime_ms)


@pytest.mark.parametrize(
    ("before", "after", "regression"),
    [(2.0, 2.5, True), (2.0, 2.05, False), (2.5, 2.0, False), (2.0, 2.0, False)],
)
def test_only_what_exceeds_the_uncertainty_is_a_regression(before: float, after: float, regression: bool) -> None:
    change = compare_entries(make_entry(1, result(before)), make_entry(2, result(after)))
    assert change.is_regression is regression
    assert change.ratio.value == pytest.approx(after / before)


def test_a_slower_machine_is_no_regression() -> None:
    """Both took 1.5 times as long as before, so the machine was slower."""
    change = compare_entries(make_entry(1, result(2.0)), make_entry(2, result(3.0, 6.0)))
    assert change.against == "onnxruntime"
    assert not change.is_regression
    assert change.ratio.value == pytest.approx(1.0)


@pytest.mark.parametrize(("name", "version"), [("onnxruntime", "2.0"), ("tvm-untuned", "1.0")])
def test_without_the_same_independent_baseline_times_are_compared(name: str, version: str) -> None:
    after = replace(result(3.0, 6.0), rivals=(rival(name, 3.0, 6.0, version),))
    before = replace(result(2.0), rivals=(rival(name, 2.0, 4.0),))
    change = compare_entries(make_entry(1, before), make_entry(2, after))
    assert change.against is None
    assert change.ratio.value == pytest.approx(1.5)


def test_the_tasks_that_changed_are_blamed() -> None:
    before = make_entry(1, result(2.0), same="1", gone="1", other="1")
    after = make_entry(2, result(3.0), same="1", new="1", other="2")
    change = compare_entries(before, after)
    assert change.blamed == ("gone", "new", "other")
    assert [describe_schedule(change, key) for key in change.blamed] == [
        "lost its record",
        "gained a record",
        "another record",
    ]
    unknown = compare_entries(replace(before, schedules=None), after)
    assert unknown.blamed is None


def test_the_newest_of_both_sides_are_compared() -> None:
    history = [make_entry(time, result(2.0 + time)) for time in range(4)]
    history.insert(3, make_entry(9, make_result("other@cpu")))
    change = compare_cell(CELL, history[:2], history, "then")
    assert isinstance(change, Change)
    assert (change.before.time, change.after.time) == (1, 3)


MACHINE = result(2.0).machine
PRODUCT = result(2.0).product


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        (
            replace(result(2.0), machine=replace(MACHINE, cpu="B")),
            "the one then was measured on another machine (B, 2 cores; now A CPU, 2 cores)",
        ),
        (
            replace(result(2.0), machine=replace(MACHINE, cores=4)),
            "the one then was measured on another machine (A CPU, 4 cores; now A CPU, 2 cores)",
        ),
        (replace(result(2.0), threads=1), "the one then was measured with 1 thread, now with 2 threads"),
        (
            replace(result(2.0), product=replace(PRODUCT, target_digest="0")),
            "the one then was measured for a target with other attributes",
        ),
    ],
)
def test_what_was_measured_otherwise_is_not_compared(old: Result, reason: str) -> None:
    after = make_entry(5, result(9.0))
    assert compare_cell(CELL, [make_entry(1, old)], [after], "then") == Incomparable(CELL, reason)
    # An older one that can be compared is used instead.
    older = make_entry(0, result(2.0))
    change = compare_cell(CELL, [older, make_entry(1, old)], [after], "then")
    assert isinstance(change, Change)
    assert change.before == older


def test_cells_without_two_benchmarks_say_so() -> None:
    entry = make_entry(1, result(2.0))
    assert compare_cell(CELL, [], [], "then") == Incomparable(CELL, "it was never benchmarked here")
    assert compare_cell(CELL, [], [entry], "then") == Incomparable(CELL, "there is no benchmark of it then")
    expected = Incomparable(CELL, "nothing was measured after the one then")
    assert compare_cell(CELL, [entry], [entry], "then") == expected


def test_a_difference_that_two_processes_of_one_program_have_is_no_regression() -> None:
    change = compare_entries(make_entry(1, result(2.0)), make_entry(2, result(2.0)))
    for low, regression in ((1.001, False), (LEAST_REGRESSION, False), (1.02, True)):
        assert replace(change, ratio=Estimate(1.03, low, 1.04)).is_regression is regression


def test_a_wide_interval_hides_a_difference() -> None:
    before = replace(result(2.0), rivals=(replace(rival("onnxruntime", 2.0, 4.0), ratio=around(0.5, 0.3)),))
    change = compare_entries(make_entry(1, before), make_entry(2, result(2.4)))
    assert change.ratio.value == pytest.approx(1.2)
    assert not change.is_regression
