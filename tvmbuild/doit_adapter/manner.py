"""The options that a caller of doit has for the output of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Manner:
    """The options of the output of one run."""

    long: bool = False
    """True if the matrix at the end has a row for each cell."""
    places: bool = True
    """True if the last line has the paths of packages and report, and the matrix is printed even after a failure."""
    reword: Callable[[str], str] = str
    """A function that rewords the message and hint of a failure."""
