"""The roofline's dots and their numbers."""

from __future__ import annotations

import re
from itertools import combinations

from tvmbuild.package.profile import OperatorRow
from tvmbuild.report.html_parts import wrap_name
from tvmbuild.report.roofline import draw_roofline


def _make_row(flops: int) -> OperatorRow:
    return OperatorRow("conv", "conv2d", "0" * 16, 1, 10.0, 0.1, flops, 1_000_000, True)


def test_dots_that_touch_have_numbers_that_do_not() -> None:
    rows = [_make_row(10_000_000 + 100_000 * index) for index in range(4)]
    page = draw_roofline(list(enumerate(rows, 1)), None)
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)">([1-4])</text>', page.partition('class="dot"')[2])
    assert [number for *_, number in found] == ["1", "2", "3", "4"]
    places = [(float(x), float(y)) for x, y, _ in found]
    apart = [abs(one[0] - two[0]) >= 10 or abs(one[1] - two[1]) >= 10 for one, two in combinations(places, 2)]
    assert all(apart), places


def test_names_break_at_their_underscores_and_are_escaped() -> None:
    assert wrap_name("conv2d_<b>_add") == "conv2d_<wbr>&lt;b&gt;_<wbr>add"
