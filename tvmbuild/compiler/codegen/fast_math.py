"""Polynomials for exp, sigmoid, tanh and erf of float32 on CPUs: they vectorise, but calls of the C library do not.

Those of sin and cos are in `fast_trigonometry`, of asin, acos and atan in `fast_arcs`, of log and pow in
`fast_logarithms`.

The results are within a few units in the last place of the C library's results. Infinities and NaN give the right
results. The rule for `nearbyint` can also return an integer type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import tvm
from tvm import tirx

from tvmbuild.compiler.codegen.fast_arcs import lower_acos, lower_asin, lower_atan
from tvmbuild.compiler.codegen.fast_logarithms import lower_log, lower_pow
from tvmbuild.compiler.codegen.fast_trigonometry import lower_cosine, lower_sine
from tvmbuild.compiler.codegen.polynomials import (
    LN2,
    bind,
    call_library,
    constant,
    dtype_of,
    is_float32,
    polynomial,
    polynomial_in_parts,
    ratio,
)

_LEVEL = 99
"""The priority of our lowering rules; the rules of TVM have priority 10."""

# Cephes' expf: 2^n times a polynomial on [-ln(2)/2, ln(2)/2].
EXP_RANGE = (-87.33654, 88.72283)
LOG2E = 1.44269504088896341
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)

# The polynomial for 2^r on [-1/2, 1/2], within 1e-7 and exactly 1 at 0; fitted for the least relative error.
_POWER = (1.3264726148e-3, 9.6715129912e-3, 5.5507335812e-2, 2.4022242427e-1, 6.9314700365e-1, 1.0)

_SIGMOID_RANGE = 87.0
"""The range in which 1 + exp(-x) and its reciprocal are normal; beyond it, sigmoid(x) is within 1e-37 of 0 or 1."""
_ROUNDER = 12582912.0
"""The number 1.5 · 2^23: after adding it to a float, the last bits of the sum are the nearest integer."""
_RECIPROCAL = 0x7EF311C7
"""This number minus the bits of a positive float gives the bits of its reciprocal, within an eighth."""

# exp(-r) is 1 - r + r² times this polynomial, within 1.1e-7 on [-ln(2)/2, ln(2)/2]; fitted for the least relative
# error.
_DECAY = (-8.312520571053028e-3, 4.1890159249305725e-2, -1.6667114198207855e-1, 4.99992311000824e-1)

# Eigen's rational function: x times one polynomial of x², divided by another; the highest power comes first.
TANH_RANGE = 7.90531110763549805
TANH_TINY = 4e-4
"""The bound of |x| below which tanh(x) is computed as x."""
TANH_NUMERATOR = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
TANH_DENOMINATOR = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)

# erf(x) is x times this polynomial of x² · _ERF_STRETCH - 1, within 4 units in the last place on [-_ERF_RANGE,
# _ERF_RANGE], and 1 at the end of that range; fitted for the least relative error. A rational function has fewer terms,
# but its division takes longer.
_ERF_RANGE = 3.74
_ERF_STRETCH = 2 / _ERF_RANGE**2
_ERF = (
    8.425007690675557e-4,
    -2.145616803318262e-3,
    1.82074005715549e-3,
    -2.912875497713685e-3,
    8.957648649811745e-3,
    -1.6464192420244217e-2,
    2.4580739438533783e-2,
    -3.695664554834366e-2,
    5.3335729986429214e-2,
    -7.14246928691864e-2,
    9.070506691932678e-2,
    -1.1208192259073257e-1,
    1.395745724439621e-1,
    -1.8851378560066223e-1,
    3.780623972415924e-1,
)


@cache
def use_fast_math() -> None:
    """Make code generation for LLVM targets use the polynomials, for the rest of this process."""
    for name, rule in _RULES.items():
        tirx.register_intrin_lowering(f"tirx.{name}", target="llvm", f=rule, level=_LEVEL)
    # TVM does not mark these functions as vectorizable and would call them element by element; LLVM then joins some of
    # the calls to short vectors.
    for name in ("nearbyint", "erf", "asin", "acos", "atan"):
        tvm.ir.register_op_attr(f"tirx.{name}", "TVectorizable", True)


def _lower_nearbyint(call: Any) -> Any:
    """Return the lowered call, which rounds to the nearest integer, as a float or an integer (`round_to_integers`)."""
    name = "llvm.lrint" if dtype_of(call).startswith("int") else "llvm.nearbyint"
    return tirx.call_llvm_pure_intrin(dtype_of(call), name, *call.args)


def _lower_exp(call: Any) -> Any:
    (x,) = call.args
    if not is_float32(x):
        return call_library(call)
    return bind(x, _exp)


def _exp(x: Any) -> Any:
    low, high = (constant(value, x) for value in EXP_RANGE)
    value = bind(_clamp(x, low, high), _exp_inside)
    outside = tirx.Select(x < low, constant(0.0, x), x)  # otherwise x is NaN
    return tirx.Select(x > high, constant(float("inf"), x), tirx.Select(x >= low, value, outside))


def _exp_inside(x: Any) -> Any:
    def scale(shifted: Any) -> Any:
        power = shifted - constant(_ROUNDER, x)
        rest = x - power * constant(LN2[0], x) - power * constant(LN2[1], x)
        growth = bind(rest, lambda r: polynomial((*EXP, 1.0, 1.0), r))
        return tirx.reinterpret(dtype_of(x), _multiply_by_power(growth, shifted))

    return bind(x * constant(LOG2E, x) + constant(_ROUNDER, x), scale)


def exp_of_negative(x: Any) -> Any:
    """Return exp(x) of a float32 number or vector that is at most zero, which is all that softmax needs.

    The relative error is within 4e-7 down to -4. It is within 4e-6 if the result is 1e-38, because log2(e) is in one
    part. Below ``EXP_RANGE`` the result is the smallest normal number, not zero.
    """
    # The constant comes first: with a NaN, TVM's max returns its second argument.
    return bind(tirx.Max(constant(EXP_RANGE[0], x), x), _exp_of_weight)


def _exp_of_weight(x: Any) -> Any:
    def scale(shifted: Any) -> Any:
        rest = x * constant(LOG2E, x) - (shifted - constant(_ROUNDER, x))
        growth = bind(rest, lambda r: polynomial(_POWER, r))
        return tirx.reinterpret(dtype_of(x), _multiply_by_power(growth, shifted))

    return bind(x * constant(LOG2E, x) + constant(_ROUNDER, x), scale)


def _multiply_by_power(value: Any, shifted: Any) -> Any:
    """Return the bits of value · 2^power, which must be a normal number; ``shifted`` is power + ``_ROUNDER``."""
    integers = dtype_of(value).replace("float", "int")
    return tirx.reinterpret(integers, value) + tirx.shift_left(
        tirx.reinterpret(integers, shifted), tirx.const(23, integers)
    )


def _lower_sigmoid(call: Any) -> Any:
    (x,) = call.args
    one = constant(1.0, x)
    if not is_float32(x):
        return one / (one + tirx.exp(constant(0.0, x) - x))
    return bind(_clamp(x, constant(-_SIGMOID_RANGE, x), constant(_SIGMOID_RANGE, x)), _sigmoid)


def _sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) with fewer instructions than exp by itself, and without a division."""

    def scale(shifted: Any) -> Any:
        power = shifted - constant(_ROUNDER, x)
        rest = x + power * constant(LN2[0], x) + power * constant(LN2[1], x)
        growth = bind(rest, lambda r: constant(1.0, r) + (r * polynomial(_DECAY, r) - constant(1.0, r)) * r)
        bits = _multiply_by_power(growth, shifted)
        return bind(tirx.reinterpret(dtype_of(x), bits) + constant(1.0, x), _reciprocal)

    return bind(x * constant(-LOG2E, x) + constant(_ROUNDER, x), scale)


def _reciprocal(x: Any) -> Any:
    """Return 1 / x within two units in the last place, by Newton's iteration: a division takes as long as 30 additions.

    ``x`` is a positive variable, and neither x nor 1 / x is below the normal numbers.
    """
    integers = dtype_of(x).replace("float", "int")
    guess = tirx.reinterpret(dtype_of(x), tirx.const(_RECIPROCAL, integers) - tirx.reinterpret(integers, x))
    for _ in range(3):
        guess = bind(guess, lambda near: near * (constant(2.0, x) - x * near))
    return guess


def _lower_tanh(call: Any) -> Any:
    (x,) = call.args
    if not is_float32(x):
        one = constant(1.0, x)
        growth = tirx.exp(tirx.abs(x) * constant(-2.0, x))
        size = (one - growth) / (one + growth)
        return tirx.Select(x < constant(0.0, x), constant(0.0, x) - size, size)
    return bind(x, _tanh)


def _tanh(x: Any) -> Any:
    inside = _clamp(x, constant(-TANH_RANGE, x), constant(TANH_RANGE, x))
    value = bind(inside, lambda each: ratio(TANH_NUMERATOR, TANH_DENOMINATOR, each))
    return tirx.Select(tirx.abs(x) < constant(TANH_TINY, x), x, value)


def _lower_erf(call: Any) -> Any:
    (x,) = call.args
    if not is_float32(x):
        return _one_by_one(call)
    return bind(_clamp(x, constant(-_ERF_RANGE, x), constant(_ERF_RANGE, x)), _erf)


def _erf(inside: Any) -> Any:
    stretched = inside * inside * constant(_ERF_STRETCH, inside) - constant(1.0, inside)
    return inside * bind(stretched, lambda each: polynomial_in_parts(_ERF, each))


def _one_by_one(call: Any) -> Any:
    """Return a vector of one call of the function per element; return a call with a scalar unchanged."""
    (x,) = call.args
    scalar, _, lanes = dtype_of(x).partition("x")
    if not lanes:
        return call
    places = [tirx.const(lane, "int32") for lane in range(int(lanes))]
    calls = [tirx.call_intrin(scalar, call.op.name, tirx.Shuffle([x], [place])) for place in places]
    return tirx.Shuffle(calls, places)


def _clamp(x: Any, low: Any, high: Any) -> Any:
    # The constants come first: with a NaN, TVM's min and max return their second argument.
    return tirx.Min(high, tirx.Max(low, x))


_RULES: Mapping[str, Callable[[Any], Any]] = {
    "exp": _lower_exp,
    "sigmoid": _lower_sigmoid,
    "tanh": _lower_tanh,
    "erf": _lower_erf,
    "sin": lower_sine,
    "cos": lower_cosine,
    "asin": lower_asin,
    "acos": lower_acos,
    "atan": lower_atan,
    "log": lower_log,
    "pow": lower_pow,
    "nearbyint": _lower_nearbyint,
}
FUNCTIONS = frozenset(_RULES) - {"nearbyint"}
"""The functions that become polynomials, by the names of their operators."""
