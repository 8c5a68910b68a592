"""Polynomials for asin, acos and atan of float32 on CPUs: they vectorise, but calls of the C library do not."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx

from tvmbuild.compiler.codegen.polynomials import bind, call_library, constant, dtype_of, is_float32, polynomial

# Cephes' asinf on [0, 1/2]: x + x³ times this polynomial of x².
ARC_SINE = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)

# Cephes' atanf up to tan(π/8): x + x³ times this polynomial of x².
ARC_TANGENT = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_EIGHTH, _THREE_EIGHTHS = math.tan(math.pi / 8), math.tan(3 * math.pi / 8)


def lower_asin(call: Any) -> Any:
    """Return the lowered call of asin."""
    (x,) = call.args
    return bind(x, _asin) if is_float32(x) else call_library(call)


def lower_acos(call: Any) -> Any:
    """Return the lowered call of acos."""
    (x,) = call.args
    return bind(x, _acos) if is_float32(x) else call_library(call)


def lower_atan(call: Any) -> Any:
    """Return the lowered call of atan."""
    (x,) = call.args
    return bind(x, lambda x: bind(tirx.abs(x), lambda size: _atan(x, size))) if is_float32(x) else call_library(call)


def _asin(x: Any) -> Any:
    def value(size: Any, arc: Any) -> Any:
        far = constant(math.pi / 2, x) - constant(2.0, x) * arc
        return _with_sign(x, tirx.Select(size > constant(0.5, x), far, arc))

    return bind(tirx.abs(x), lambda size: bind(_reduced_arc(size), lambda arc: value(size, arc)))


def _acos(x: Any) -> Any:
    def value(size: Any, arc: Any) -> Any:
        twice = constant(2.0, x) * arc
        far = tirx.Select(x < constant(0.0, x), constant(math.pi, x) - twice, twice)
        near = constant(math.pi / 2, x) - _with_sign(x, arc)
        return tirx.Select(size > constant(0.5, x), far, near)

    return bind(tirx.abs(x), lambda size: bind(_reduced_arc(size), lambda arc: value(size, arc)))


def _reduced_arc(size: Any) -> Any:
    """Return asin(size) up to ½, and asin(√((1 - size) / 2)) beyond; ``size`` is a variable and not negative."""
    half, is_far = constant(0.5, size), size > constant(0.5, size)
    rest = half * (constant(1.0, size) - size)

    def arc(square: Any, side: Any) -> Any:
        return side + side * square * polynomial(ARC_SINE, square)

    return bind(
        tirx.Select(is_far, rest, size * size),
        lambda square: bind(tirx.Select(is_far, tirx.sqrt(square), size), lambda side: arc(square, side)),
    )


def _atan(x: Any, size: Any) -> Any:
    one = constant(1.0, x)
    is_far, is_middle = size > constant(_THREE_EIGHTHS, x), size > constant(_EIGHTH, x)

    def choose(far: Any, middle: Any, near: Any) -> Any:
        return tirx.Select(is_far, far, tirx.Select(is_middle, middle, near))

    def value(ratio: Any) -> Any:
        arc = bind(ratio * ratio, lambda square: ratio + ratio * square * polynomial(ARC_TANGENT, square))
        base = choose(constant(math.pi / 2, x), constant(math.pi / 4, x), constant(0.0, x))
        return _with_sign(x, base + arc)

    numerator, denominator = choose(constant(-1.0, x), size - one, size), choose(size, size + one, one)
    return bind(numerator / denominator, value)


def _with_sign(x: Any, size: Any) -> Any:
    """Return a number of this size with the sign of x."""
    integers = dtype_of(x).replace("float", "int")
    sign = tirx.bitwise_and(tirx.reinterpret(integers, x), tirx.const(-(1 << 31), integers))
    return tirx.reinterpret(dtype_of(x), tirx.bitwise_xor(tirx.reinterpret(integers, size), sign))
