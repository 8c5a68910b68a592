"""A rule tried on a form that it may not have foreseen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

REFUSALS = (RuntimeError, TypeError, ValueError, StopIteration, ZeroDivisionError)
"""What TVM raises on forms that a rule did not foresee: ScheduleError, and its own errors (of empty shapes, bools)."""
Made = TypeVar("Made")


def try_rule(make: Callable[[], Made | None]) -> Made | None:
    """Return what it makes; None where a rule meets a form that it did not foresee."""
    try:
        return make()
    except (*REFUSALS, AssertionError, AttributeError, IndexError):  # the last three are DLight's
        return None
