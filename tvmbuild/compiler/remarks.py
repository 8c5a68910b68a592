"""Remarks of rewrites on what they looked at and left as it was, as LLVM's ``-Rpass-missed``.

``--print-passes`` prints them below the pass. A remark is made where the operator is the right one and something else
keeps the rewrite from it; the operators that a pass is not made for are none of its business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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


@contextmanager
def collect_missed() -> Iterator[Counter[str]]:
    """Collect the remarks that are made inside of the block: reason → how often."""
    collected: Counter[str] = Counter()
    token = _missed.set(collected)
    try:
        yield collected
    finally:
        _missed.reset(token)
