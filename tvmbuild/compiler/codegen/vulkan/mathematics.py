"""Functions of single precision by C's names: their accuracy is ours, not the driver's.

Vulkan lets a driver be wrong by 2^-11 in a cosine and more in a tanh; lavapipe makes use of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tvmbuild.compiler.codegen.vulkan import exponentials as e
from tvmbuild.compiler.codegen.vulkan import trigonometry as t
from tvmbuild.compiler.codegen.vulkan.exact import Exact
from tvmbuild.compiler.codegen.vulkan.opcodes import Glsl, Op

_MAX_TIMES = 2.0**22


def _round(x: Exact) -> Exact:
    """Return the nearest integer; of two the one farther from 0."""
    size = x.apply(Glsl.F_ABS)
    return (size + 0.5).apply(Glsl.FLOOR).select(size > 2.0**22, size.apply(Glsl.ROUND_EVEN)).with_sign(x)


def _remainder(x: Exact, y: Exact) -> Exact:
    """Return what division leaves, with the sign of x: exactly, of a quotient below ``_MAX_TIMES``."""
    size, divisor = x.apply(Glsl.F_ABS), y.apply(Glsl.F_ABS)
    count = (size / divisor).apply(Glsl.TRUNC)
    high, low = count.split(), divisor.split()
    rest = size - high[0] * low[0] - high[0] * low[1] - high[1] * low[0] - high[1] * low[1]
    rest = rest.select(rest < 0.0, rest + divisor)  # the quotient was rounded up
    above = x.emitter.pure(Op.F_ORD_GREATER_EQUAL, "bool", rest.id, divisor.id)
    rest = rest.select(above, rest - divisor)
    rest = rest.select(count > _MAX_TIMES, 0.0).select(y.is_infinite(), size)
    undefined = x.emitter.pure(Op.LOGICAL_OR, "bool", x.is_infinite(), y.is_zero())
    return rest.select(undefined, math.nan).with_sign(x).select(y.is_nan(), y)


FUNCTIONS: Mapping[str, Callable[..., Exact]] = {
    "exp": e.exp, "exp2": e.exp2, "exp10": e.exp10, "expm1": e.expm1, "log": e.log, "log2": e.log2, "log10": e.log10,
    "log1p": e.log1p, "pow": e.power, "tanh": e.tanh, "erf": e.erf, "sigmoid": e.sigmoid, "sinh": e.hyperbolic_sine,
    "cosh": e.hyperbolic_cosine, "asinh": e.inverse_hyperbolic_sine, "acosh": e.inverse_hyperbolic_cosine,
    "atanh": e.inverse_hyperbolic_tangent, "sin": t.sine, "cos": t.cosine, "tan": t.tangent, "asin": t.arcsine,
    "acos": t.arccosine, "atan": t.arctangent, "atan2": t.arctangent_of, "round": _round, "fmod": _remainder,
    "copysign": lambda x, y: x.apply(Glsl.F_ABS).with_sign(y),
}  # fmt: skip
