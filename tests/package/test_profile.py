from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tvmbuild.package.operator_info import OperatorInfo
from tvmbuild.package.profile import Bound, Event, GraphTime, OperatorRow, Peak, Profile, share_of_peak, summarize_runs

CONV = OperatorInfo("fused_conv2d1", "conv2d", "0123456789abcdef", 4000, 100, covered=True)
PEAK = Peak(200.0, 20.0, 2, "FMA", "copy")
ROW = OperatorRow("f", "f", "0" * 16, 1, 10.0, 0.5, 1_000_000, 10_000, covered=True)


def test_a_row_sums_the_median_of_each_call_site() -> None:
    runs: list[list[Event]] = [
        [("fused_conv2d1", 1000), ("fused_conv2d1", 5000)],
        [("fused_conv2d1", 3000), ("fused_conv2d1", 9000)],
        [("fused_conv2d1", 90_000), ("fused_conv2d1", 4000)],
    ]
    (row,) = summarize_runs(runs, [CONV])
    assert row == OperatorRow("fused_conv2d1", "conv2d", CONV.key, 2, 8.0, 1.0, 8000, 200, covered=True)
    assert row.gflops == pytest.approx(1.0)
    assert row.gb_s == pytest.approx(0.025)


def test_the_longest_is_first_and_what_the_virtual_machine_does_is_one_row() -> None:
    runs: list[list[Event]] = [
        [("vm.builtin.alloc_storage", 500), ("other", 7000), ("vm.builtin.reshape", 500), ("fused_conv2d1", 2000)]
    ]
    rows = summarize_runs(runs, [CONV])
    assert [(row.function, row.name, row.calls, row.us, row.share) for row in rows] == [
        ("other", "other", 1, 7.0, 0.7),
        ("fused_conv2d1", "conv2d", 1, 2.0, 0.2),
        ("vm.builtin", "virtual machine", 2, 1.0, 0.1),
    ]
    assert [(row.key, row.flops, row.bytes, row.covered, row.gflops) for row in rows[::2]] == [(None,) * 5] * 2


def test_what_cannot_be_counted_stays_unknown() -> None:
    (row,) = summarize_runs([[("fused_conv2d1", 1000)]], [replace(CONV, flops=None)])
    assert (row.flops, row.gflops, row.bytes) == (None, None, 100)


def test_nothing_and_no_time_divide_nothing() -> None:
    assert summarize_runs([], []) == ()
    (row,) = summarize_runs([[("fused_conv2d1", 0)]], [CONV])
    assert (row.share, row.gflops, row.gb_s) == (0.0, None, None)


@pytest.mark.parametrize(
    ("row", "bound"),
    [
        (ROW, Bound("compute", 100 / 200)),
        (replace(ROW, flops=100_001), Bound("compute", 10.0001 / 200)),
        (replace(ROW, flops=99_999), Bound("memory", 1 / 20)),
        (replace(ROW, flops=0), Bound("memory", 1 / 20)),
        (replace(ROW, flops=None), Bound("memory", 1 / 20)),
        (replace(ROW, flops=0, bytes=1_000_000), Bound("memory", 5.0)),
        (replace(ROW, flops=None, bytes=None), None),
        (replace(ROW, us=0.0), None),
    ],
)
def test_the_limit_is_what_the_roofline_says(row: OperatorRow, bound: Bound | None) -> None:
    got = share_of_peak(row, PEAK)
    assert (got is None) == (bound is None)
    if got is not None and bound is not None:
        assert got.by == bound.by
        assert got.share == pytest.approx(bound.share)


def test_json_and_back_is_the_same_value() -> None:
    for row in (ROW, OperatorRow("vm.builtin", "virtual machine", None, 3, 1.5, 0.1, None, None, None)):
        value = json.loads(json.dumps(row.to_json()))
        assert OperatorRow.from_json({**value, "of a later version": 1}) == row
    for profile in (Profile((ROW,), "device", GraphTime(52, 171.5, 180.25)), Profile((ROW,), "host", None, ("why",))):
        assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile
    earlier = {"rows": [ROW.to_json()], "clock": "host"}
    assert Profile.from_json(earlier) == Profile((ROW,), "host")
    assert Peak.from_json(json.loads(json.dumps(PEAK.to_json()))) == PEAK
