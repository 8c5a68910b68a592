"""Remarks of passes on operators that they examined but did not rewrite, like LLVM's option ``-Rpass-missed``.

``--print-passes`` prints the remarks below the pass. A pass remarks only on operators of the kind that it rewrites,
with the reason why it did not rewrite this one; it ignores all other operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Made = TypeVar("Made")

_missed: ContextVar[Counter[str] | None] = ContextVar("missed", default=None)


def missed(reason: str) -> Made | None:
    """Remark why a pass does not rewrite an operator, and return None.

    A rewrite ends with this call: ``return missed("its weights are computed")``.
    """
    collected = _missed.get()
    if collected is not None:
        collected[reason] += 1
    return None


def is_missed(obstacles: Iterable[str]) -> bool:
    """Return whether there is an obstacle to a rewrite, and remark on the first one.

    A rewrite begins with this call: ``if is_missed(_list_obstacles(call)): return None``.
    """
    reason = next(iter(obstacles), None)
    if reason is not None:
        missed(reason)
    return reason is not None


@contextmanager
def collect_missed() -> Iterator[Counter[str]]:
    """Yield a counter of the remarks that are made in the block: reason → number of operators."""
    collected: Counter[str] = Counter()
    token = _missed.set(collected)
    try:
        yield collected
    finally:
        _missed.reset(token)
