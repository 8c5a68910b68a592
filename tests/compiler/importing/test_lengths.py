"""Expressions of counts: equal numbers are equal expressions, and their bounds hold."""

from __future__ import annotations

import pytest

from tvmbuild.compiler.importing.bounds.lengths import (
    Number,
    add,
    choose,
    divide,
    find_high,
    find_low,
    is_equal,
    is_less,
    least,
    most,
    multiply,
    name_value,
    subtract,
)

FEW, MANY = name_value("few", 0, 5), name_value("many", 3, 900)


@pytest.mark.parametrize(
    ("number", "equal"),
    [
        (add(FEW, 3, MANY, -3), add(MANY, FEW)),
        (subtract(add(FEW, 300), FEW), 300),
        (multiply(6, subtract(300, FEW)), subtract(1800, multiply(FEW, 6))),
        (divide(multiply(FEW, 4, MANY), multiply(MANY, 2)), multiply(2, FEW)),
        (divide(multiply(FEW, 4), 4), FEW),
        (least(MANY, 1000, FEW, 300), least(FEW, MANY)),
        (most(0, FEW), FEW),
        (most(MANY, 1000), 1000),
        (least(FEW, 5), FEW),
        (is_less(FEW, 6), 1),
        (is_equal(MANY, 2), 0),
        (choose(is_equal(FEW, 0), 0, 0), 0),
    ],
)
def test_equal_numbers_are_equal(number: Number, equal: Number) -> None:
    assert number == equal


@pytest.mark.parametrize(
    ("number", "low", "high"),
    [
        (add(FEW, MANY), 3, 905),
        (subtract(FEW, MANY), -900, 2),
        (multiply(FEW, MANY), 0, 4500),
        (divide(MANY, FEW), 0, 900),
        (least(MANY, 300), 3, 300),
        (choose(is_less(FEW, 3), MANY, 1), 1, 900),
    ],
)
def test_bounds(number: Number, low: int, high: int) -> None:
    assert (find_low(number), find_high(number)) == (low, high)
