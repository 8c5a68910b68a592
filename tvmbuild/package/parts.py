"""The parts in which a batch is computed: built sizes that together take the least time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


@lru_cache(maxsize=1024)
def split(rows: int, costs: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """Return the sizes of the calls that compute a number of rows, the largest first, padding the last.

    ``costs`` are pairs of a size and its time, the smallest size first. A size that is exactly that of the rows is one
    call. Otherwise the least sum of times decides, and among equal ones fewer calls.
    """
    if any(size == rows for size, _ in costs):
        return (rows,)
    largest = costs[-1][0]
    bulk = min(costs, key=lambda each: (each[1] / each[0], -each[0]))[0]
    many = max(0, rows - 2 * largest) // bulk  # far from the end, only the rate counts
    return tuple(sorted([bulk] * many + list(_cover(rows - many * bulk, costs)), reverse=True))


def _cover(rows: int, costs: Sequence[tuple[int, int]]) -> list[int]:
    """Return the sizes with the least time whose sum is at least the number of rows."""
    best: list[tuple[int, int, int]] = [(0, 0, 0)]  # time, calls, size of the last call
    for count in range(1, rows + 1):
        before = [(*best[max(0, count - size)][:2], size, cost) for size, cost in costs]
        best.append(min((time + cost, calls + 1, -size) for time, calls, size, cost in before))
    found = list[int]()
    while rows > 0:
        found.append(-best[rows][2])
        rows = max(0, rows + best[rows][2])
    return found
