"""Exponentials, logarithms and functions built on them, in single precision.

The polynomials come from Cephes (https://www.netlib.org/cephes/, single precision) and from `fast_math`.
"""

from __future__ import annotations

import math

from tvmbuild.compiler.codegen.fast_logarithms import LOG
from tvmbuild.compiler.codegen.fast_math import (
    EXP,
    EXP_RANGE,
    LOG2E,
    TANH_DENOMINATOR,
    TANH_NUMERATOR,
    TANH_RANGE,
    TANH_TINY,
)
from tvmbuild.compiler.codegen.polynomials import LN2
from tvmbuild.compiler.codegen.vulkan.exact import Exact
from tvmbuild.compiler.codegen.vulkan.opcodes import Glsl, Op

_ERF_RANGE = 4.0
_ERF_NUMERATOR = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04,
    -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip
_ERF_DENOMINATOR = (
    -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02,
)  # fmt: skip
"""The denominator of Eigen's rational function for erf; ``_ERF_NUMERATOR`` is its numerator.

A multiplication and an addition are two instructions here, so that the rational function takes fewer instructions than
the polynomial in `fast_math`.
"""
_LOG10_2 = (0.30102539, 4.605039e-6)
_SQRT_HALF = 0.707106781186547524
_SMALLEST_NORMAL = 1.17549435e-38
_ALMOST_ALL = 80.0
"""The bound above which sinh(x) and cosh(x) are computed as e^x / 2."""
_LARGE = 1e9
"""The bound above which x² + 1 is x² in single precision."""


def exp(x: Exact) -> Exact:
    """Return e^x, computed as 2^n times a polynomial."""
    inside = x.clamp(*EXP_RANGE)
    power = (inside * LOG2E + 0.5).apply(Glsl.FLOOR)
    rest = inside - power * LN2[0] - power * LN2[1]
    value = _scale(rest.polynomial(EXP) * rest * rest + rest + 1.0, power)
    return value.select(x < EXP_RANGE[0], 0.0).select(x > EXP_RANGE[1], math.inf).select(x.is_nan(), x)


def exp2(x: Exact) -> Exact:
    """Return 2^x."""
    inside = x.clamp(-127.0, 128.0)
    power = (inside + 0.5).apply(Glsl.FLOOR)
    rest = (inside - power) * math.log(2)
    value = _scale(rest.polynomial(EXP) * rest * rest + rest + 1.0, power)
    return value.select(x < -127.0, 0.0).select(x > 128.0, math.inf).select(x.is_nan(), x)


def exp10(x: Exact) -> Exact:
    """Return 10^x."""
    inside = x.clamp(-38.0, 38.6)
    power = (inside * math.log2(10) + 0.5).apply(Glsl.FLOOR)
    rest = (inside - power * _LOG10_2[0] - power * _LOG10_2[1]) * math.log(10)
    value = _scale(rest.polynomial(EXP) * rest * rest + rest + 1.0, power)
    return value.select(x < -38.0, 0.0).select(x > 38.6, math.inf).select(x.is_nan(), x)


def _scale(value: Exact, exponent: Exact) -> Exact:
    """Return value · 2^exponent with two factors for the power: large results need 2^128, which is not a float."""
    number = value.emitter.pure(Op.CONVERT_F_TO_S, "u32", exponent.id)
    half = value.integer(Op.SHIFT_RIGHT_ARITHMETIC, number, value.word(1))
    return value * _power_of_two(value, half) * _power_of_two(value, value.integer(Op.I_SUB, number, half))


def _power_of_two(like: Exact, exponent: int) -> Exact:
    biased = like.integer(Op.I_ADD, exponent, like.word(127))
    return like.from_bits(like.integer(Op.SHIFT_LEFT_LOGICAL, biased, like.word(23)))


def _split(x: Exact) -> tuple[Exact, Exact]:
    """Return (m, e) of a positive normal number m · 2^e, where m is between √½ and √2."""
    bits = x.bits()
    raw = x.integer(Op.SHIFT_RIGHT_LOGICAL, bits, x.word(23))
    fraction = x.integer(Op.BITWISE_OR, x.integer(Op.BITWISE_AND, bits, x.word(0x007FFFFF)), x.word(0x3F000000))
    mantissa = x.from_bits(fraction)
    small = mantissa < _SQRT_HALF
    exponent = x.integer(Op.I_SUB, raw, x.word(126))
    lowered = x.integer(Op.I_SUB, exponent, x.word(1))
    chosen = x.emitter.pure(Op.SELECT, "u32", small, lowered, exponent)
    number = Exact(x.emitter, x.emitter.pure(Op.CONVERT_S_TO_F, "f32", chosen))
    return mantissa.select(small, mantissa + mantissa), number


def _log_parts(x: Exact) -> tuple[Exact, Exact, Exact]:
    """Return (m - 1, ln m - (m - 1), e) of a positive number m · 2^e."""
    tiny = x < _SMALLEST_NORMAL
    mantissa, exponent = _split(x.select(tiny, x * 8388608.0))
    rest = mantissa - 1.0
    square = rest * rest
    more = rest.polynomial(LOG) * rest * square - square * 0.5
    return rest, more, exponent.select(tiny, exponent - 23.0)


def _outside(x: Exact, value: Exact) -> Exact:
    """Correct a logarithm's value for zero, negative numbers, infinity and NaN."""
    value = value.select(x < _SMALLEST_NORMAL / 2**23, -math.inf).select(x < 0.0, math.nan)
    infinite = x.emitter.pure(Op.I_EQUAL, "bool", x.bits(), x.word(0x7F800000))
    return value.select(infinite, x).select(x.is_nan(), x)


def log(x: Exact) -> Exact:
    """Return the natural logarithm."""
    rest, more, exponent = _log_parts(x)
    return _outside(x, (exponent * LN2[1] + more + rest) + exponent * LN2[0])


def log2(x: Exact) -> Exact:
    """Return the logarithm to base two."""
    rest, more, exponent = _log_parts(x)
    fraction = LOG2E - 1.0
    return _outside(x, ((more * fraction + rest * fraction) + more + rest) + exponent)


def log10(x: Exact) -> Exact:
    """Return the logarithm to base ten."""
    return log(x) * math.log10(math.e)


def log1p(x: Exact) -> Exact:
    """Return ln(1 + x), accurate near 0."""
    total = x + 1.0
    lost = x - (total - 1.0)
    value = log(total) + (lost / total).select(total.is_zero(), 0.0)
    infinite = x.emitter.pure(Op.I_EQUAL, "bool", x.bits(), x.word(0x7F800000))
    return value.select(infinite, x).select(x.is_zero(), x)


def expm1(x: Exact) -> Exact:
    """Return e^x - 1, accurate near 0."""
    small = x.polynomial((1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5)) * x * x + x
    return (exp(x) - 1.0).select(x.apply(Glsl.F_ABS) < 0.25, small)


def power(x: Exact, y: Exact) -> Exact:
    """Return x^y; the result is NaN if x is negative and finite and y is not an integer."""
    size = x.apply(Glsl.F_ABS)
    emitter = x.emitter
    value = exp2(y * log2(size)).select(emitter.pure(Op.F_ORD_EQUAL, "bool", size.id, x.constant(1.0).id), 1.0)
    whole = y.apply(Glsl.FLOOR)
    is_whole = emitter.pure(Op.F_ORD_EQUAL, "bool", y.id, whole.id)
    half = y * 0.5
    is_even = emitter.pure(Op.F_ORD_EQUAL, "bool", half.id, half.apply(Glsl.FLOOR).id)
    fraction = emitter.pure(Op.LOGICAL_NOT, "bool", is_whole)
    is_odd = emitter.pure(Op.LOGICAL_AND, "bool", is_whole, emitter.pure(Op.LOGICAL_NOT, "bool", is_even))
    odd = emitter.pure(Op.LOGICAL_AND, "bool", x.is_negative(), is_odd)
    finite = emitter.pure(Op.LOGICAL_AND, "bool", x < 0.0, x > -math.inf)
    undefined = emitter.pure(Op.LOGICAL_AND, "bool", finite, fraction)
    value = value.select(odd, -value).select(undefined, math.nan)
    nothing = emitter.pure(Op.F_ORD_EQUAL, "bool", y.id, x.constant(0.0).id)
    one = emitter.pure(Op.F_ORD_EQUAL, "bool", x.id, x.constant(1.0).id)
    return value.select(emitter.pure(Op.LOGICAL_OR, "bool", nothing, one), 1.0)


def tanh(x: Exact) -> Exact:
    """Return the hyperbolic tangent."""
    value = _ratio(TANH_NUMERATOR, TANH_DENOMINATOR, x.clamp(-TANH_RANGE, TANH_RANGE))
    return value.select(x.apply(Glsl.F_ABS) < TANH_TINY, x).select(x.is_nan(), x)


def erf(x: Exact) -> Exact:
    """Return the error function."""
    return _ratio(_ERF_NUMERATOR, _ERF_DENOMINATOR, x.clamp(-_ERF_RANGE, _ERF_RANGE)).select(x.is_nan(), x)


def _ratio(numerator: tuple[float, ...], denominator: tuple[float, ...], x: Exact) -> Exact:
    square = x * x
    return x * (square.polynomial(numerator) / square.polynomial(denominator))


def hyperbolic_sine(x: Exact) -> Exact:
    """Return the hyperbolic sine."""
    size = x.apply(Glsl.F_ABS)
    growth = expm1(size)
    value = (growth + growth / (growth + 1.0)) * 0.5
    return value.select(size > _ALMOST_ALL, _half_exp(size)).with_sign(x).select(x.is_zero(), x)


def hyperbolic_cosine(x: Exact) -> Exact:
    """Return the hyperbolic cosine."""
    size = x.apply(Glsl.F_ABS)
    growth = exp(size)
    return ((growth + x.constant(1.0) / growth) * 0.5).select(size > _ALMOST_ALL, _half_exp(size))


def _half_exp(x: Exact) -> Exact:
    """Return e^x / 2, even if e^x is too large."""
    root = exp(x * 0.5)
    return root * 0.5 * root


def sigmoid(x: Exact) -> Exact:
    """Return 1 / (1 + e^-x)."""
    return x.constant(1.0) / (exp(-x) + 1.0)


def inverse_hyperbolic_sine(x: Exact) -> Exact:
    """Return the inverse hyperbolic sine."""
    size = x.apply(Glsl.F_ABS)
    square = size * size
    value = log1p(size + square / ((square + 1.0).apply(Glsl.SQRT) + 1.0))
    return value.select(size > _LARGE, log(size) + math.log(2)).with_sign(x)


def inverse_hyperbolic_cosine(x: Exact) -> Exact:
    """Return the inverse hyperbolic cosine."""
    above = x - 1.0
    value = log1p(above + (above * (x + 1.0)).apply(Glsl.SQRT))
    return value.select(x > _LARGE, log(x) + math.log(2))


def inverse_hyperbolic_tangent(x: Exact) -> Exact:
    """Return the inverse hyperbolic tangent."""
    size = x.apply(Glsl.F_ABS)
    return (log1p(size * 2.0 / (x.constant(1.0) - size)) * 0.5).with_sign(x)
