"""Parts of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def take_evenly(items: Sequence[Item], count: int) -> tuple[Item, ...]:
    """Return at most ``count`` items, evenly spaced over the whole sequence and in its order."""
    if len(items) <= count:
        return tuple(items)
    return tuple(items[index * len(items) // count] for index in range(count))
