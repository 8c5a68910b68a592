"""The operators of a package: the functions that ``main`` calls, and the Task of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class OperatorInfo:
    """The description of a function that ``main`` calls: one fused operator of the model."""

    function: str
    """The function's name in the library."""
    name: str
    """The operator's name in reports."""
    key: str
    """The key of the function's Task."""
    flops: int | None
    """The number of additions, multiplications and similar operations of one call. None if they cannot be counted."""
    bytes: int | None
    """The least number of bytes that one call reads and writes. None if it cannot be counted."""
    covered: bool
    """True if the Task has a record."""


def read_operators(values: Sequence[Mapping[str, Any]] | None) -> tuple[OperatorInfo, ...] | None:
    """Return the operators of a JSON list. None in packages without one."""
    names = [each.name for each in fields(OperatorInfo)]
    return None if values is None else tuple(OperatorInfo(**{name: v[name] for name in names}) for v in values)


def join_operators(lists: Sequence[tuple[OperatorInfo, ...] | None]) -> tuple[OperatorInfo, ...] | None:
    """Return the operators of several functions that a call runs, or None if they are unknown.

    If several operators have one name, operations and bytes are None, because their calls are counted together.
    """
    known: dict[str, OperatorInfo] = {}
    for operators in lists:
        if operators is None:
            return None
        for each in operators:
            other = known.setdefault(each.function, each)
            if other != each:
                known[each.function] = replace(other, flops=None, bytes=None, covered=other.covered and each.covered)
    return tuple(known.values())
