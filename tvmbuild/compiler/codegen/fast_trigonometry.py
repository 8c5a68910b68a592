"""Polynomials for sin and cos of float32 on CPUs: they vectorise, but calls of the C library do not.

The argument is reduced to a quarter turn in float64, so that all bits are right near the zeros, too. If one argument of
a vector is too large for this, the C library computes the whole vector.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx

from tvmbuild.compiler.codegen.polynomials import bind, call_library, dtype_of, is_float32, polynomial

LARGE = float(1 << 20)
"""The largest argument whose number of quarter turns times ``_FIRST`` is exact in float64."""
_QUARTER = math.pi / 2
_FIRST = math.floor(_QUARTER * 2**31) / 2**31
"""A quarter turn (π/2) cut off to 32 bits; ``_REST`` is the difference from π/2."""
_REST = (_QUARTER - _FIRST) + 6.123233995736766e-17

# Cephes' sinf and cosf on an eighth of a turn: r + r³ · SINE(r²), and 1 - r²/2 + r⁴ · COSINE(r²).
SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


def lower_sine(call: Any) -> Any:
    """Return the lowered call of sin; the C library computes it for types other than float32."""
    return _lower(call, quarters=0)


def lower_cosine(call: Any) -> Any:
    """Return the lowered call of cos, as a sine a quarter turn further."""
    return _lower(call, quarters=1)


def _lower(call: Any, quarters: int) -> Any:
    (x,) = call.args
    if not is_float32(x):
        return call_library(call)

    def choose(value: Any) -> Any:
        is_small = _largest(value) < tirx.const(LARGE, "float32")
        return tirx.if_then_else(is_small, _compute(value, quarters), call_library(call, value))

    return bind(x, choose)


def _largest(x: Any) -> Any:
    """Return the largest magnitude of a vector's elements, or a scalar's magnitude."""
    size = tirx.abs(x)
    _, _, lanes = dtype_of(x).partition("x")
    return tirx.call_llvm_pure_intrin("float32", "llvm.vector.reduce.fmax", size) if lanes else size


def _compute(x: Any, quarters: int) -> Any:
    wide, integers = (dtype_of(x).replace("float32", each) for each in ("float64", "int32"))

    def turn(exact: Any) -> Any:
        return bind(tirx.nearbyint(exact * tirx.const(1 / _QUARTER, wide)), lambda count: place(exact, count))

    def place(exact: Any, count: Any) -> Any:
        rest = exact - count * tirx.const(_FIRST, wide) - count * tirx.const(_REST, wide)
        number = tirx.Cast(integers, count) + tirx.const(quarters, integers)
        return bind(
            tirx.Cast(dtype_of(x), rest),
            lambda r: bind(number, lambda n: bind(r * r, lambda square: value(r, n, square))),
        )

    def value(r: Any, number: Any, square: Any) -> Any:
        one, two, zero = (tirx.const(each, integers) for each in (1, 2, 0))
        sine = r + r * square * polynomial(SINE, square)
        cosine = polynomial((*COSINE, -0.5, 1.0), square)
        chosen = tirx.Select(tirx.bitwise_and(number, one) == zero, sine, cosine)
        return bind(
            chosen,
            lambda size: tirx.Select(tirx.bitwise_and(number, two) == zero, size, tirx.const(0.0, dtype_of(x)) - size),
        )

    return bind(tirx.Cast(wide, x), turn)
