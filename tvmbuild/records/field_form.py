"""The form that fields of a record file must have; ValueError, TypeError, KeyError or AttributeError says what has not.

What is accepted here can be shown, added up and turned into a TVM target without a thought of what it might be.
"""

from __future__ import annotations

import math
from typing import Any

_MAX_COUNT = 1 << 53


def check_text(data: dict[str, Any], name: str) -> str:
    """Return the field, which must be text."""
    value = data[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def check_target(target: Any) -> None:
    """Refuse what is not a kind with attributes and host attributes, scalars or lists of scalars."""
    if not isinstance(target["kind"], str):
        raise TypeError("the target's kind is no text")
    for part in ("attributes", "host"):
        for value in target[part].values():
            entries = value if isinstance(value, list) else [value]
            if not all(isinstance(entry, str | int | float) for entry in entries):
                raise TypeError(f"the target's {part} are not scalars and lists of scalars")


def check_count(value: Any) -> int:
    """Return a number of candidates or threads."""
    count = int(value)
    if not 0 <= count < _MAX_COUNT:
        raise ValueError(f"a count of candidates is {value}")
    return count


def check_spent(value: object) -> float:
    """Return a time in seconds."""
    seconds = float(value) if isinstance(value, int | float) else math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"spent is {value} seconds")
    return seconds
