"""How much the page shows of each cell: less where there are many, so that 200 of them stay below 2 MB."""

from __future__ import annotations

from dataclasses import dataclass

FEW_CELLS = 60


@dataclass(frozen=True)
class Limits:
    """Rows of a cell's tables, and points of its history."""

    operators: int
    """Those that take most of the time."""
    tasks: int
    """Those whose record files are read: they are large."""
    runs: int
    """The latest, listed."""
    drawn_runs: int
    """The latest, drawn."""


FEW, MANY = Limits(12, 10, 12, 60), Limits(5, 3, 3, 16)


def choose_limits(cells: int) -> Limits:
    """Return the limits for so many cells."""
    return FEW if cells <= FEW_CELLS else MANY
