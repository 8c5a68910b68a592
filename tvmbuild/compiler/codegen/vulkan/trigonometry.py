"""Sines, cosines, tangents and their inverses, in single precision; Vulkan itself allows an error of 2^-11 in a cosine.

The polynomials come from Cephes (https://www.netlib.org/cephes/, single precision).
"""

from __future__ import annotations

import math

from tvmbuild.compiler.codegen.fast_arcs import ARC_SINE, ARC_TANGENT
from tvmbuild.compiler.codegen.fast_trigonometry import COSINE, SINE
from tvmbuild.compiler.codegen.vulkan.exact import Exact
from tvmbuild.compiler.codegen.vulkan.opcodes import Glsl, Op

_HALF_PI = (1.5703125, 4.837512969970703125e-4, 7.549789948768648e-8)
"""π/2 in three parts with few bits set, so that their products with integers below 2^13 are exact."""


def sine(x: Exact) -> Exact:
    """Return the sine of x, in single precision for |x| up to 8192; beyond 8192, return some number from -1 to 1."""
    return _wave(x, 0)


def cosine(x: Exact) -> Exact:
    """Return the cosine of x, in single precision for |x| up to 8192; beyond 8192, return some number from -1 to 1."""
    return _wave(x, 1)


def _wave(x: Exact, quarters: int) -> Exact:
    """Return the sine of x plus ``quarters`` quarter turns."""
    count = (x * (2 / math.pi) + 0.5).apply(Glsl.FLOOR)
    rest = (x - count * _HALF_PI[0] - count * _HALF_PI[1] - count * _HALF_PI[2]).clamp(-math.pi / 4, math.pi / 4)
    rest = rest.select(x.is_nan(), x).select(x.is_infinite(), math.nan)
    square = rest * rest
    sin = square.polynomial(SINE) * square * rest + rest
    cos = square.polynomial(COSINE) * square * square - square * 0.5 + 1.0
    number = x.emitter.pure(Op.CONVERT_F_TO_S, "u32", count.id)
    turned = x.integer(Op.I_ADD, number, x.word(quarters))
    value = sin.select(_has_bit(x, turned, 1), cos)
    return value.select(_has_bit(x, turned, 2), -value)


def _has_bit(like: Exact, number: int, bit: int) -> int:
    found = like.integer(Op.BITWISE_AND, number, like.word(bit))
    return like.emitter.pure(Op.I_NOT_EQUAL, "bool", found, like.word(0))


def tangent(x: Exact) -> Exact:
    """Return the tangent."""
    return sine(x) / cosine(x)


def arctangent(x: Exact) -> Exact:
    """Return the arctangent."""
    size = x.apply(Glsl.F_ABS)
    large, middle = size > math.tan(3 * math.pi / 8), size > math.tan(math.pi / 8)
    inside = size.select(middle, (size - 1.0) / (size + 1.0)).select(large, x.constant(-1.0) / size)
    start = x.constant(0.0).select(middle, math.pi / 4).select(large, math.pi / 2)
    square = inside * inside
    return (start + inside.polynomial_of(square, ARC_TANGENT)).with_sign(x)


def arcsine(x: Exact) -> Exact:
    """Return the arcsine."""
    size = x.apply(Glsl.F_ABS)
    large = size > 0.5
    square = (size * size).select(large, (size * -0.5) + 0.5)
    inside = size.select(large, square.apply(Glsl.SQRT))
    value = inside.polynomial_of(square, ARC_SINE)
    return value.select(large, value * -2.0 + math.pi / 2).with_sign(x).select(size > 1.0, math.nan)


def arccosine(x: Exact) -> Exact:
    """Return the arccosine."""
    size = x.apply(Glsl.F_ABS)
    large = size > 0.5
    inside = x.select(large, ((size * -0.5) + 0.5).apply(Glsl.SQRT))
    angle = inside.polynomial_of(inside * inside, ARC_SINE)
    near = (angle * 2.0).select(x.is_negative(), angle * -2.0 + math.pi)
    return (-angle + math.pi / 2).select(large, near).select(size > 1.0, math.nan)


def arctangent_of(y: Exact, x: Exact) -> Exact:
    """Return the angle of the point (x, y), from -π to π."""
    both_infinite = x.emitter.pure(Op.LOGICAL_AND, "bool", x.is_infinite(), y.is_infinite())
    value = arctangent((y.apply(Glsl.F_ABS) / x.apply(Glsl.F_ABS)).select(both_infinite, 1.0))
    left = x.is_negative()
    value = value.select(left, x.constant(math.pi) - value)
    both_zero = x.integer(Op.BITWISE_OR, x.magnitude(), y.magnitude())
    nothing = x.emitter.pure(Op.I_EQUAL, "bool", both_zero, x.word(0))
    flat = x.constant(0.0).select(left, math.pi)
    return value.select(nothing, flat).with_sign(y)
