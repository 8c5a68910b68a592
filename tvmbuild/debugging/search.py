"""The search for the first wrong place by models that end ever nearer to it.

A model that ends after some nodes is right or wrong. Between a right and a wrong one, a binary search finds two
neighbours: the node that only the wrong one has is at fault, if what it reads is right. If what it reads is off by more
than rounding, and the node alone is right with the original's inputs, then the fault lies before it, and the search
goes on there with a smaller error as its limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Ratios = Mapping[str, float]
"""Place → its error divided by the one that rounding causes."""
_PART = 4.0
"""A place counts as wrong in the search for the origin if its error exceeds the final error divided by this."""
OWN = 16.0
"""The fault is a node's own if the node has, with right inputs, more than its error divided by this."""
_LARGEST = 1e9
"""The ratio that stands for infinity."""


@dataclass(frozen=True)
class Questions:
    """The functions with which the search looks at a model."""

    end_after: Callable[[int], Ratios | None]
    """Takes a number of nodes and returns the ratios at the ends of their model; None if it cannot be built."""
    list_read: Callable[[int], Sequence[str]]
    """Takes a node's number and returns the places that it reads."""
    alone: Callable[[int], float | None]
    """Takes a node's number and returns the ratio of the node alone with right inputs; None if it cannot be built."""


@dataclass(frozen=True)
class Origin:
    """The nodes at which a model becomes wrong."""

    first: int
    last: int
    """The node whose model is wrong, and the first one after the longest right model: mostly the same."""
    ratio: float
    inputs: float
    """The largest ratio among the places that the node reads."""
    alone: float | None
    """The ratio of the node alone with the original's inputs; None if this is unknown."""


def find_origin(ask: Questions, nodes: int, limit: float) -> Origin | None:
    """Return the origin of the error at the ends of a model; None if the error is within the limit."""
    worst, high = _worst(ask.end_after(nodes)), nodes
    if worst <= limit:
        return None
    threshold = worst / _PART
    while True:
        low, high = _narrow(ask, high, max(limit, threshold))
        ratio, read = _worst(ask.end_after(high)), _read(ask, low, high)
        alone = ask.alone(high - 1)
        is_own = alone is not None and alone > max(limit, ratio / OWN)
        if read <= limit or is_own:
            return Origin(low, high - 1, ratio, read, alone)
        high, threshold = low, read / _PART


def _read(ask: Questions, low: int, high: int) -> float:
    """Return the largest ratio among the places of the longest right model that the node after a wrong one reads."""
    before = ask.end_after(low) or {} if low else {}
    return _worst({name: before.get(name, 0.0) for name in ask.list_read(high - 1)})


def _narrow(ask: Questions, high: int, threshold: float) -> tuple[int, int]:
    """Return the numbers of nodes of a right and a wrong model, with only models between them that cannot be built."""
    low, unknown = 0, set[int]()
    while True:
        between = [count for count in range(low + 1, high) if count not in unknown]
        if not between:
            return low, high
        middle = between[len(between) // 2]
        ratios = ask.end_after(middle)
        if ratios is None:
            unknown.add(middle)
        elif _worst(ratios) > threshold:
            high = middle
        else:
            low = middle


def _worst(ratios: Ratios | None) -> float:
    return max((_LARGEST if math.isinf(each) else each for each in (ratios or {}).values()), default=0.0)
