"""The caller's wishes about the output of a run of doit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Manner:
    """The options of a run's output."""

    long: bool = False
    """Whether the matrix at the end has a row for each cell."""
    places: bool = True
    """Whether the last line names the places of packages and report, and the matrix lists the failures."""
    reword: Callable[[str], str] = str
    """Rewords a failure's message and hint."""
