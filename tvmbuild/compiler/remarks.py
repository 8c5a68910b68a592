"""Remarks of rewrites on what they looked at and left as it was, as LLVM's ``-Rpass-missed``.

``--print-passes`` prints them below the pass. A remark is made where the operator is the right one and something else
keeps the rewrite from it; the operators that a pass is not made for are none of its business.
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
    """Remark why a rewrite leaves what it looked at, and return None.

    A rewrite ends with it: ``return missed("its weights are computed")``.
    """
    collected = _missed.get()
    if collected is not None:
        collected[reason] += 1
    return None


def is_missed(obstacles: Iterable[str]) -> bool:
    """Remark on the first of what keeps a rewrite from a call, if anything does; say whether it does.

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
