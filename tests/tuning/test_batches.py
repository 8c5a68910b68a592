"""The way in which the searches of a step share its trials."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.compiler

Row = tuple[int, int, int, bool]
"""(share, most, proposed, over) of one search."""


def search(row: Row) -> Any:
    from tvmbuild.tuning.task_search import Allowance

    share, most, proposed, over = row
    return SimpleNamespace(allowance=Allowance(share, most), proposed=proposed, over=over)


@pytest.mark.parametrize(
    ("rows", "allowed"),
    [
        ([(10, 64, 0, False), (10, 64, 0, False)], 10),  # the other has a right to its share
        ([(10, 64, 4, False), (10, 64, 0, False)], 6),
        ([(10, 64, 10, False), (10, 64, 0, False)], 0),
        ([(10, 64, 10, False), (10, 64, 3, True)], 7),  # the rest of an ended search
        ([(10, 64, 15, False), (10, 64, 3, True)], 2),
        ([(10, 64, 0, False), (10, 64, 12, False)], 8),  # the other has had two of our trials, from the rest of a third
        ([(0, 64, 0, False), (10, 64, 0, False)], 0),
    ],
)
def test_a_search_may_use_its_share_and_what_others_leave(rows: list[Row], allowed: int) -> None:
    from tvmbuild.tuning.batches import _count_allowed

    searches = [search(row) for row in rows]
    assert _count_allowed(searches, searches[0]) == allowed
