"""The limits of a cell's part of the page: lower for many cells, so that 200 of them stay below 2 MB."""

from __future__ import annotations

from dataclasses import dataclass

FEW_CELLS = 60


@dataclass(frozen=True)
class Limits:
    """The numbers of rows in a cell's tables, and of points in its history."""

    operators: int
    """The operators that take most of the time."""
    tasks: int
    """The Tasks whose record files are read, because these are large."""
    runs: int
    """The latest runs that are listed."""
    drawn_runs: int
    """The latest runs that are drawn."""


FEW, MANY = Limits(12, 10, 12, 60), Limits(5, 3, 3, 16)


def choose_limits(cells: int) -> Limits:
    """Return the limits for that many cells."""
    return FEW if cells <= FEW_CELLS else MANY
