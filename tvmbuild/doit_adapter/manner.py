"""How a run of doit is told: what whoever starts it asks of the reporter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Manner:
    """How a run is told."""

    long: bool = False
    """Whether the matrix at the end has a row a cell."""
    places: bool = True
    """Whether the last line says where packages and report are, and the matrix what failed."""
    reword: Callable[[str], str] = str
    """What is said of a failure, given its message and hint."""
