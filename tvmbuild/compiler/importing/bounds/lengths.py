"""Whole numbers that depend on data: expressions of counts, each with its smallest and its largest value.

Equal expressions are equal numbers, so that two axes of the same length are recognised as such.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias, Union

FAR = 1 << 60
"""The bound of a number about which nothing is known."""


@dataclass(frozen=True)
class Length:
    """A whole number that is known only at run time."""

    operator: str
    """The operator that computes it of ``arguments``; `value` for a scalar of the graph with the name in ``name``."""
    arguments: tuple[Number, ...]
    low: int
    high: int
    name: str = ""


Number: TypeAlias = Union[int, Length]  # noqa: UP007 - an alias that names itself cannot be evaluated


def find_low(number: Number) -> int:
    """Return the smallest value of a number."""
    return number.low if isinstance(number, Length) else number


def find_high(number: Number) -> int:
    """Return the largest value of a number."""
    return number.high if isinstance(number, Length) else number


def name_value(name: str, low: int = -FAR, high: int = FAR) -> Number:
    """Return the number in an int64 scalar of the graph."""
    return low if low == high else Length("value", (), low, high, name)


def add(*numbers: Number) -> Number:
    """Return the sum of numbers; equal terms are joined."""
    terms: Counter[Number] = Counter()
    constant = 0
    for each in numbers:
        for number in _list(each, "add"):
            if isinstance(number, int):
                constant += number
            else:
                factor, rest = _split(number)
                terms[rest] += factor
    parts = [multiply(factor, term) for term, factor in terms.items() if factor]
    if not parts:
        return constant
    if constant:
        parts.append(constant)
    if len(parts) == 1:
        return parts[0]
    return _make("add", _sorted(parts), sum(map(find_low, parts)), sum(map(find_high, parts)))


def subtract(first: Number, second: Number) -> Number:
    """Return the difference of two numbers."""
    return add(first, multiply(-1, second))


def multiply(*numbers: Number) -> Number:
    """Return the product of numbers."""
    factors = [factor for each in numbers for factor in _list(each, "multiply")]
    constant = math.prod(each for each in factors if isinstance(each, int))
    others = [each for each in factors if not isinstance(each, int)]
    if not constant or not others:
        return constant
    if constant != 1 and len(others) == 1 and others[0].operator == "add":
        return add(*(multiply(constant, each) for each in others[0].arguments))
    parts: list[Number] = [constant, *_sorted(others)] if constant != 1 else _sorted(others)
    if len(parts) == 1:
        return parts[0]
    low, high = reduce(_span, parts, (1, 1))
    return _make("multiply", parts, low, high)


def divide(first: Number, second: Number) -> Number:
    """Return the quotient of a number that is not negative and a positive one, without the remainder."""
    if second == 1:
        return first
    if isinstance(first, int) and isinstance(second, int):
        return first // second if second else 0
    over, under = Counter(_list(first, "multiply")), Counter(_list(second, "multiply"))
    shared = over & under
    if shared:
        return divide(multiply(*(over - shared).elements()), multiply(*(under - shared).elements()))
    factor, rest = _split(first) if isinstance(first, Length) else (first, 1)
    if isinstance(second, int) and factor % second == 0:
        return multiply(factor // second, rest)
    least_under, most_under = max(1, find_low(second)), max(1, find_high(second))
    return _make("divide", [first, second], max(0, find_low(first)) // most_under, find_high(first) // least_under)


def least(*numbers: Number) -> Number:
    """Return the smallest of numbers."""
    return _choose("least", numbers, 1)


def most(*numbers: Number) -> Number:
    """Return the largest of numbers."""
    return _choose("most", numbers, -1)


def is_less(first: Number, second: Number) -> Number:
    """Return 1 if the first number is smaller than the second one, else 0."""
    if find_high(first) < find_low(second):
        return 1
    if find_low(first) >= find_high(second) or first == second:
        return 0
    return _make("is_less", [first, second], 0, 1)


def is_equal(first: Number, second: Number) -> Number:
    """Return 1 if the numbers are equal, else 0."""
    if first == second:
        return 1
    if find_high(first) < find_low(second) or find_high(second) < find_low(first):
        return 0
    return _make("is_equal", _sorted([first, second]), 0, 1)


def choose(condition: Number, chosen: Number, other: Number) -> Number:
    """Return one of two numbers: the first one unless the condition is 0."""
    if isinstance(condition, int) or chosen == other:
        return chosen if condition else other
    if (chosen, other) == (1, 0) and (condition.low, condition.high) == (0, 1):
        return condition
    bounds = (min(find_low(chosen), find_low(other)), max(find_high(chosen), find_high(other)))
    return _make("choose", [condition, chosen, other], *bounds)


def _make(operator: str, arguments: Iterable[Number], low: int, high: int) -> Number:
    low, high = max(low, -FAR), min(high, FAR)
    return low if low == high else Length(operator, tuple(arguments), low, high)


def _choose(operator: str, numbers: Iterable[Number], sign: int) -> Number:
    parts = list(dict.fromkeys(part for each in numbers for part in _list(each, operator)))
    known = [each for each in parts if isinstance(each, int)]
    left: list[Number] = [each for each in parts if not isinstance(each, int)]
    if known:
        left.append(min(known) if sign > 0 else max(known))
    nearest, farthest = (find_low, find_high) if sign > 0 else (find_high, find_low)
    limit = min(sign * farthest(each) for each in left)
    # A part that is never beyond another one never decides.
    kept = [each for each in left if sign * nearest(each) < limit or sign * farthest(each) == limit]
    certain = [each for each in kept if all(sign * farthest(each) <= sign * nearest(o) for o in kept if o != each)]
    if certain:
        return certain[0]
    pick = min if sign > 0 else max
    return _make(operator, _sorted(kept), pick(map(find_low, kept)), pick(map(find_high, kept)))


def _list(number: Number, operator: str) -> tuple[Number, ...]:
    return number.arguments if isinstance(number, Length) and number.operator == operator else (number,)


def _split(number: Length) -> tuple[int, Number]:
    """Return a number's constant factor, and the rest of the product."""
    if number.operator != "multiply" or not isinstance(number.arguments[0], int):
        return 1, number
    return number.arguments[0], multiply(*number.arguments[1:])


def _span(bounds: tuple[int, int], number: Number) -> tuple[int, int]:
    corners = [one * other for one in bounds for other in (find_low(number), find_high(number))]
    return min(corners), max(corners)


def _sorted(numbers: Iterable[Number]) -> list[Number]:
    return sorted(numbers, key=repr)
