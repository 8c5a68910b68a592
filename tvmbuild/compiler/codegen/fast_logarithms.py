"""Polynomials for log and pow of float32 on CPUs: they vectorise, but calls of the C library do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx

from tvmbuild.compiler.codegen.polynomials import (
    LN2,
    bind,
    call_library,
    constant,
    dtype_of,
    is_float32,
    polynomial,
    polynomial_in_parts,
)

_ROOT = 0x3F3504F3
"""The bits of √½: subtracted from those of a positive float, they leave its exponent for a mantissa in [√½, √2)."""
_MANTISSA_BITS = 23
_MANTISSA = (1 << _MANTISSA_BITS) - 1
_SMALLEST = 2.0**-126
"""The smallest normal float32; what is smaller is multiplied by ``_STEP`` first."""
_STEP_BITS = 24
_STEP = 2.0**_STEP_BITS

# Cephes' logf: m - m²/2 + m³ times this polynomial of m on [√½ - 1, √2 - 1].
LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)

# In float64: log2((1 + s) / (1 - s)) is s times this polynomial of s², within 2e-13 for |s| < 0.172;
# 2^r is the other polynomial of r, within 1e-11 for |r| < ½.
_LOG2 = tuple(2 / math.log(2) / power for power in (13, 11, 9, 7, 5, 3, 1))
_POWER = tuple(math.log(2) ** power / math.factorial(power) for power in range(9, -1, -1))
_POWER_RANGE = (-160.0, 130.0)
"""The exponents beyond which a power of 2 is zero or infinite in float32."""
_BIAS = 127
_INFINITE = float("inf")


def lower_log(call: Any) -> Any:
    """Return the lowered call of log."""
    (x,) = call.args
    return bind(x, _log) if is_float32(x) else call_library(call)


def lower_pow(call: Any) -> Any:
    """Return the lowered call of pow: products or a root if its exponent is one of a few constants, else in float64."""
    base, exponent = call.args
    if not is_float32(base):
        return call_library(call)
    if (short := _SHORT_POWERS.get(_read_constant(exponent))) is not None:
        return bind(base, short)
    return bind(base, lambda x: bind(exponent, lambda y: bind(tirx.abs(x), lambda size: _pow(x, y, size))))


def _log(x: Any) -> Any:
    """Return log(x); ``x`` is a variable."""

    def value(power: Any, mantissa: Any) -> Any:
        square = mantissa * mantissa
        rest = mantissa * square * polynomial_in_parts(LOG, mantissa) + power * constant(LN2[1], x)
        return mantissa + (rest - square * constant(0.5, x)) + power * constant(LN2[0], x)

    def use(power: Any, mantissa: Any) -> Any:
        return bind(power, lambda e: bind(mantissa - constant(1.0, x), lambda m: value(e, m)))

    zero, infinite = constant(0.0, x), constant(_INFINITE, x)
    below = tirx.Select(x < zero, constant(float("nan"), x), constant(-_INFINITE, x))
    inside = tirx.Select(x > zero, _split(x, use), tirx.Select(x <= zero, below, x))  # otherwise x is NaN
    return tirx.Select(x == infinite, x, inside)


def _split(x: Any, use: Any) -> Any:
    """Return ``use(power, mantissa)`` with x = 2^power · mantissa and a mantissa in [√½, √2); x is positive."""
    integers = dtype_of(x).replace("float32", "int32")
    is_small = x < constant(_SMALLEST, x)

    def parts(bits: Any) -> Any:
        power = tirx.Cast(dtype_of(x), tirx.shift_right(bits, tirx.const(_MANTISSA_BITS, integers)))
        shifted = power - tirx.Select(is_small, constant(float(_STEP_BITS), x), constant(0.0, x))
        kept = tirx.bitwise_and(bits, tirx.const(_MANTISSA, integers)) + tirx.const(_ROOT, integers)
        return use(shifted, tirx.reinterpret(dtype_of(x), kept))

    normal = tirx.Select(is_small, x * constant(_STEP, x), x)
    return bind(tirx.reinterpret(integers, normal) - tirx.const(_ROOT, integers), parts)


def _read_constant(value: Any) -> float | None:
    """Return the constant that a number or each element of a vector has, or None."""
    value = value.value if isinstance(value, tirx.Broadcast) else value
    return float(value.value) if isinstance(value, tirx.FloatImm) else None


def _square(x: Any) -> Any:
    return x * x


def _root(x: Any) -> Any:
    """Return x^½, which is infinite for -inf and never -0, other than the square root."""
    infinite = constant(_INFINITE, x)
    return tirx.Select(x == constant(-_INFINITE, x), infinite, tirx.abs(tirx.sqrt(x)))


def _invert(x: Any) -> Any:
    return constant(1.0, x) / x


_SHORT_POWERS: Mapping[float | None, Callable[[Any], Any]] = {
    1.0: lambda x: x,
    2.0: _square,
    3.0: lambda x: _square(x) * x,
    4.0: lambda x: bind(_square(x), _square),
    0.5: _root,
    -0.5: lambda x: _invert(_root(x)),
    -1.0: _invert,
    -2.0: lambda x: _invert(_square(x)),
}
"""Constant exponent → its products, root or quotient, which take few instructions; norms have squares."""


def _pow(x: Any, y: Any, size: Any) -> Any:
    """Return x^y of variables; ``size`` is |x|. Zeros, infinities and NaN give what the C library gives."""
    zero, one, infinite = (constant(each, x) for each in (0.0, 1.0, _INFINITE))
    integers = dtype_of(x).replace("float32", "int32")
    has_sign = tirx.reinterpret(integers, x) < tirx.const(0, integers)

    def sign(value: Any, whole: Any) -> Any:
        is_odd = tirx.floor(y * constant(0.5, y)) * constant(2.0, y) < whole
        negated = tirx.Select(has_sign, tirx.Select(is_odd, value * constant(-1.0, x), value), value)
        undefined = tirx.Select(x < zero, tirx.Select(size < infinite, constant(float("nan"), x), value), value)
        return tirx.Select(whole == y, negated, undefined)

    signed = bind(_pow_of_size(size, y), lambda value: bind(tirx.floor(y), lambda whole: sign(value, whole)))
    number = tirx.Select(size <= infinite, tirx.Select(tirx.abs(y) <= infinite, signed, y), x)
    return tirx.Select(y == zero, one, tirx.Select(x == one, one, number))


def _pow_of_size(size: Any, y: Any) -> Any:
    """Return size^y for a size that is not negative."""
    wide = dtype_of(size).replace("float32", "float64")
    largest = tirx.const(float(2.0**127), wide)
    exponent = tirx.Max(-largest, tirx.Min(largest, tirx.Cast(wide, y)))  # zero times it must not be NaN
    logarithm = tirx.Select(
        size > constant(0.0, size),
        tirx.Select(size < constant(_INFINITE, size), _split(size, _log2), tirx.const(_INFINITE, wide)),
        tirx.const(-_INFINITE, wide),
    )
    low, high = (tirx.const(each, wide) for each in _POWER_RANGE)
    return bind(tirx.Min(high, tirx.Max(low, logarithm * exponent)), lambda power: _exp2(power, dtype_of(size)))


def _log2(power: Any, mantissa: Any) -> Any:
    """Return power + log2(mantissa) in float64."""
    wide = dtype_of(mantissa).replace("float32", "float64")
    one = tirx.const(1.0, wide)

    def series(ratio: Any) -> Any:
        return tirx.Cast(wide, power) + ratio * bind(ratio * ratio, lambda square: polynomial(_LOG2, square))

    return bind(tirx.Cast(wide, mantissa), lambda m: bind((m - one) / (m + one), series))


def _exp2(power: Any, dtype: str) -> Any:
    """Return 2^power of a float64 variable within ``_POWER_RANGE``, as ``dtype``."""
    integers = dtype.replace("float32", "int32")

    def scale(value: Any, number: Any) -> Any:
        # One float32 has not enough exponents.
        half = tirx.shift_right(number, tirx.const(1, integers))
        first, second = (tirx.Cast(dtype_of(power), _two_to_the(each, dtype)) for each in (half, number - half))
        return tirx.Cast(dtype, value * first * second)

    def use(whole: Any) -> Any:
        value = bind(power - whole, lambda rest: polynomial(_POWER, rest))
        return bind(value, lambda value: bind(tirx.Cast(integers, whole), lambda number: scale(value, number)))

    return bind(tirx.nearbyint(power), use)


def _two_to_the(number: Any, dtype: str) -> Any:
    """Return 2^number of a whole number, as a float32."""
    integers = dtype_of(number)
    biased = number + tirx.const(_BIAS, integers)
    return tirx.reinterpret(dtype, tirx.shift_left(biased, tirx.const(_MANTISSA_BITS, integers)))
