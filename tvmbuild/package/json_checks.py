"""Checks of an untrusted JSON value: each takes the value and its place, and raises TypeError or ValueError."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from typing import Any

Check = Callable[[Any, str], None]
LATER = (
    *("operators", "profiled", "workspace", "scratch", "largest", "frames", "postprocess", "counts"),
    *("sizes", "range", "cost", "flags"),
)
"""The parts that may be missing, because older packages lack them."""


def text(value: Any, where: str) -> None:
    """Check that the value is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{where} is not a text")


def natural(value: Any, where: str) -> None:
    """Check that the value is a natural number."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{where} is not a natural number")


def number(value: Any, where: str) -> None:
    """Check that the value is a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{where} is not a finite number")
    try:
        is_finite = math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        is_finite = False
    if not is_finite:
        raise TypeError(f"{where} is not a finite number")


def scalar(value: Any, where: str) -> None:
    """Check that the value is a text, a number, true or false."""
    if not isinstance(value, str | bool):
        number(value, where)


def truth(value: Any, where: str) -> None:
    """Check that the value is true or false."""
    if not isinstance(value, bool):
        raise TypeError(f"{where} is neither true nor false")


def each(check: Check) -> Check:
    """Return a check of lists whose elements pass ``check``."""

    def check_all(value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise TypeError(f"{where} is not a list")
        for index, item in enumerate(value):
            check(item, f"{where}[{index}]")

    return check_all


def values(check: Check) -> Check:
    """Return a check of maps whose values pass ``check``."""

    def check_all(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise TypeError(f"{where} is not a map")
        for key, item in value.items():
            check(item, f"{where}.{key}")

    return check_all


def map_of(parts: Mapping[str, Check]) -> Check:
    """Return a check of maps with these parts."""
    return lambda value, where: check_map(value, where, parts)


def optional(check: Check) -> Check:
    """Return a check that lets None pass."""
    return lambda value, where: None if value is None else check(value, where)


def one_of(*choices: str) -> Check:
    """Return a check of one of these texts."""

    def check(value: Any, where: str) -> None:
        if value not in choices:
            raise ValueError(f"{where} is {value!r}")

    return check


def between(least: int, most: int) -> Check:
    """Return a check of a natural number in a range."""

    def check(value: Any, where: str) -> None:
        natural(value, where)
        if not least <= value <= most:
            raise ValueError(f"{where} is {value}")

    return check


def check_fields(value: Any, where: str, checks: Mapping[str, Check], may_lack: Container[str] = ()) -> None:
    """Check a map that has no keys without a check, and lacks none but those in ``may_lack``."""
    if not isinstance(value, dict):
        raise TypeError(f"{where} is not a map")
    if set(value) - set(checks):
        raise ValueError(f"{where} has the unknown key {min(set(value) - set(checks))}")
    check_map(value, where, {key: check for key, check in checks.items() if key in value or key not in may_lack})


def check_map(value: Any, where: str, parts: Mapping[str, Check]) -> None:
    """Check that the value is a map, and each of its parts; those in ``LATER`` may be missing."""
    if not isinstance(value, dict):
        raise TypeError(f"{where} is not a map")
    for key, check in parts.items():
        name = key if where == "mod.json" else f"{where}.{key}"
        if key not in value and key not in LATER:
            raise ValueError(f"{name} is missing")
        check(value.get(key), name)
