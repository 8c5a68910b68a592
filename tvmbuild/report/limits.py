"""The limits of a cell's section in the HTML report.

They are lower for many cells, so that a page of 200 cells stays below 2 MB.
"""

from __future__ import annotations

from dataclasses import dataclass

FEW_CELLS = 60


@dataclass(frozen=True)
class Limits:
    """The largest numbers of rows in a cell's tables, and of points in its history."""

    operators: int
    """The number of operators that are listed, the longest first."""
    tasks: int
    """The number of Tasks whose record files are read. It is small because these files are large."""
    runs: int
    """The number of latest runs that are listed."""
    drawn_runs: int
    """The number of latest runs that are drawn."""


FEW, MANY = Limits(12, 10, 12, 60), Limits(5, 3, 3, 16)


def choose_limits(cells: int) -> Limits:
    """Return the limits for a page of that many cells."""
    return FEW if cells <= FEW_CELLS else MANY
