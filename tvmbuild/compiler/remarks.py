"""Remarks of rewrites on operators that they examined and left as they were, as LLVM's ``-Rpass-missed``.

``--print-passes`` prints them below the pass. A rewrite makes a remark where the operator is one that it handles and
something else prevents it; it ignores the operators that it is not made for.
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
    """Remark why a rewrite leaves an operator as it is, and return None.

    A rewrite ends with it: ``return missed("its weights are computed")``.
    """
    collected = _missed.get()
    if collected is not None:
        collected[reason] += 1
    return None


def is_missed(obstacles: Iterable[str]) -> bool:
    """Remark on the first obstacle to a rewrite, if any; return whether one was found.

    A rewrite begins with it: ``if is_missed(_list_obstacles(call)): return None``.
    """
    reason = next(iter(obstacles), None)
    if reason is not None:
        missed(reason)
    return reason is not None


@contextmanager
def collect_missed() -> Iterator[Counter[str]]:
    """Collect the remarks that are made inside of the block: reason → how often."""
    collected: Counter[str] = Counter()
    token = _missed.set(collected)
    try:
        yield collected
    finally:
        _missed.reset(token)
