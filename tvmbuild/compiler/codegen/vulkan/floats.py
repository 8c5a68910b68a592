"""Arithmetic and functions of floating-point numbers, in each precision."""

from __future__ import annotations

from tvmbuild.compiler.codegen.vulkan.emitter import Emitter
from tvmbuild.compiler.codegen.vulkan.exact import Exact
from tvmbuild.compiler.codegen.vulkan.mathematics import FUNCTIONS
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
    """Arithmetic on values of one dtype."""

    def __init__(self, emitter: Emitter) -> None:
        self._emit = emitter

    def binary(self, name: str, a: Value, b: Value, dtype: DType) -> Value:
        """Return the result of TensorIR's node of that name."""
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
        """Return a function of numbers of ``dtype`` by C's name of it, with or without C's suffix."""
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
    """Return `exp` of `expf`, but `erf` of `erf`."""
    known = name in FUNCTIONS or name in _IN_ANY_PRECISION
    suffix = _SUFFIXES.get(dtype.bits, "")
    return name if known or not suffix else name.removesuffix(suffix)
