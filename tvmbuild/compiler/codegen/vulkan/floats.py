"""Arithmetic and functions of floating-point numbers, in each precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tvmbuild.compiler.codegen.vulkan import exponentials as e
from tvmbuild.compiler.codegen.vulkan import trigonometry as t
from tvmbuild.compiler.codegen.vulkan.emitter import Emitter
from tvmbuild.compiler.codegen.vulkan.exact import Exact
from tvmbuild.compiler.codegen.vulkan.opcodes import Glsl, Op
from tvmbuild.compiler.codegen.vulkan.values import BOOL, DType, Value

_OPERATIONS = {"Add": Op.F_ADD, "Sub": Op.F_SUB, "Mul": Op.F_MUL, "Div": Op.F_DIV}
_EXTREMES = {"Min": Glsl.F_MIN, "Max": Glsl.F_MAX}
_COMPARISONS = {
    "EQ": Op.F_ORD_EQUAL,
    "NE": Op.F_UNORD_NOT_EQUAL,
    "LT": Op.F_ORD_LESS_THAN,
    "LE": Op.F_ORD_LESS_EQUAL,
    "GT": Op.F_ORD_GREATER_THAN,
    "GE": Op.F_ORD_GREATER_EQUAL,
}
_IN_ANY_PRECISION = {
    "fabs": Glsl.F_ABS,
    "floor": Glsl.FLOOR,
    "ceil": Glsl.CEIL,
    "trunc": Glsl.TRUNC,
    "nearbyint": Glsl.ROUND_EVEN,
    "rint": Glsl.ROUND_EVEN,
    "sqrt": Glsl.SQRT,
    "rsqrt": Glsl.INVERSE_SQRT,
}
_SUFFIXES = {16: "h", 32: "f"}


class Floats:
    """An emitter of floating-point arithmetic and functions."""

    def __init__(self, emitter: Emitter) -> None:
        self._emit = emitter

    def binary(self, name: str, a: Value, b: Value, dtype: DType) -> Value:
        """Return the result of TensorIR's binary node ``name``; raise NotImplementedError for an unknown node."""
        kind = dtype.register
        if name in _COMPARISONS:
            return Value(self._emit.pure(_COMPARISONS[name], "bool", a.id, b.id), "bool", 0, 1)
        if name in _EXTREMES:
            return Value(self._emit.glsl(_EXTREMES[name], kind, a.id, b.id), kind)
        if name == "Mod":
            return self.call("fmod", (a, b), dtype, dtype)
        if name not in _OPERATIONS:
            raise NotImplementedError(f"{name} of {dtype.kind}{dtype.bits}")
        return Value(self._emit.pure(_OPERATIONS[name], kind, a.id, b.id), kind)

    def call(self, name: str, arguments: tuple[Value, ...], dtype: DType, result: DType) -> Value:
        """Return the result of the C function ``name`` (`exp` or `expf`) for arguments of ``dtype``.

        Raises NotImplementedError if there is no code for the function or the type.
        """
        name = _strip(name, dtype)
        if name in _IN_ANY_PRECISION:
            (value,) = arguments
            return Value(self._emit.glsl(_IN_ANY_PRECISION[name], dtype.register, value.id), dtype.register)
        single = [Exact(self._emit, self._convert(each, "f32").id) for each in arguments]
        if result == BOOL and name in ("isnan", "isinf", "isfinite"):
            return self._classify(name, single[0])
        if name not in FUNCTIONS or dtype.bits > 32:
            raise NotImplementedError(f"the function {name} of {dtype.kind}{dtype.bits}")
        return self._convert(Value(FUNCTIONS[name](*single).id, "f32"), dtype.register)

    def _classify(self, name: str, value: Exact) -> Value:
        nan, infinite = value.is_nan(), value.is_infinite()
        if name != "isfinite":
            return Value(nan if name == "isnan" else infinite, "bool", 0, 1)
        either = self._emit.pure(Op.LOGICAL_OR, "bool", nan, infinite)
        return Value(self._emit.pure(Op.LOGICAL_NOT, "bool", either), "bool", 0, 1)

    def _convert(self, value: Value, kind: str) -> Value:
        return value if value.kind == kind else Value(self._emit.pure(Op.F_CONVERT, kind, value.id), kind)


def _strip(name: str, dtype: DType) -> str:
    """Return the name of a C function without the suffix for its type: `exp` for `expf`, but `erf` for `erf`."""
    known = name in FUNCTIONS or name in _IN_ANY_PRECISION
    suffix = _SUFFIXES.get(dtype.bits, "")
    return name if known or not suffix else name.removesuffix(suffix)


# Functions of single precision, by their names in C. We compute them without the driver's functions: Vulkan lets a
# driver be wrong by 2^-11 in a cosine and more in a tanh, and lavapipe makes use of it.

_MAX_TIMES = 2.0**22


def _round(x: Exact) -> Exact:
    """Round to the nearest integer; halves go away from 0."""
    size = x.apply(Glsl.F_ABS)
    return (size + 0.5).apply(Glsl.FLOOR).select(size > 2.0**22, size.apply(Glsl.ROUND_EVEN)).with_sign(x)


def _remainder(x: Exact, y: Exact) -> Exact:
    """Return the exact remainder of a division, with the sign of x, for quotients below ``_MAX_TIMES``."""
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
