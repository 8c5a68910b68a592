"""Converters of operators on single elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from tvmbuild.compiler.importing.converters.call import Converter, NodeCall
from tvmbuild.errors import TvmbuildError

_LOG_2 = 0.6931471805599453
_SECOND, _THIRD, _FOURTH = 2.0, 3.0, 4.0
_SELU_GAMMA = 1.05070102214813232421875
_TERMS = {"float64": 9}
_MIN_TERMS = 5
"""The number of terms of sinh's Taylor series for types not in ``_TERMS``.

With this number, the series' error for |x| < 1 is less than the last bit of the type.
"""


def fold_pairwise(operator: Callable[..., relax.Expr]) -> Converter:
    """Return a converter that applies a binary operator to any number of inputs, one after another.

    TVM emits Max and Min as broadcast, stack and reduce, three passes over memory, and Sum with a reduction that
    ConvertLayout cannot handle ("can't find S in source layout").
    """

    def convert(call: NodeCall) -> relax.Expr:
        result = call.data
        for other in call.inputs[1:]:
            result = call.emit(operator, result, other)
        return result

    return convert


def convert_mean(call: NodeCall) -> relax.Expr:
    """Convert Mean to the sum of the inputs divided by their number."""
    return relax.op.divide(fold_pairwise(relax.op.add)(call), call.number(len(call.inputs)))


def convert_is_inf(call: NodeCall) -> relax.Expr:
    """Convert IsInf for infinities of both signs or of one sign; TVM ignores the attributes for the sign."""
    signs = [
        call.emit(relax.op.equal, call.data, call.number(infinity))
        for name, infinity in (("detect_negative", -np.inf), ("detect_positive", np.inf))
        if call.attributes.get(name, 1)
    ]
    if not signs:
        return call.emit(relax.op.zeros, call.data.ty.shape, "bool")
    return signs[0] if len(signs) == 1 else relax.op.logical_or(*signs)


def convert_equal(call: NodeCall) -> relax.Expr:
    """Convert Equal; TVM 0.27 would compare booleans as floats, which LLVM refuses."""
    if call.dtype != "bool":
        return call.by_tvm()
    return relax.op.logical_not(call.emit(relax.op.logical_xor, *call.inputs[:2]))


def convert_cosh(call: NodeCall) -> relax.Expr:
    """Convert Cosh to e^(|x| - ln 2) + e^(-|x| - ln 2), which does not overflow early; TVM's cosh has no code."""
    return relax.op.add(*_halves_of_exponentials(call))


def convert_sinh(call: NodeCall) -> relax.Expr:
    """Convert Sinh to e^(|x| - ln 2) - e^(-|x| - ln 2) with the sign of x.

    For |x| < 1, where the two terms cancel each other, the result is a polynomial.
    """
    rising, falling = _halves_of_exponentials(call)
    large = call.emit(
        relax.op.multiply, call.emit(relax.op.sign, call.data), call.emit(relax.op.subtract, rising, falling)
    )
    square = call.emit(relax.op.multiply, call.data, call.data)
    powers = range(_TERMS.get(call.dtype, _MIN_TERMS), 0, -1)
    first, *others = (1 / math.factorial(2 * power + 1) for power in powers)
    series = call.number(first)
    for coefficient in others:
        series = call.emit(relax.op.add, call.emit(relax.op.multiply, series, square), call.number(coefficient))
    product = call.emit(relax.op.multiply, call.emit(relax.op.multiply, series, square), call.data)
    small = call.emit(relax.op.add, call.data, product)
    near = call.emit(relax.op.less, call.emit(relax.op.abs, call.data), call.number(1.0))
    return relax.op.where(near, small, large)


def convert_power(call: NodeCall) -> relax.Expr:
    """Convert Pow; compute in floats if the base is an integer or the types differ, as ONNX Runtime does.

    Third and fourth powers of floats become products; otherwise a GELU by tanh would call the C library for each
    element. So do small powers of integers, which GPUs without float64 could not compute.
    """
    base, exponent = call.inputs[0], call.inputs[1]
    types = {str(each.ty.dtype) for each in (base, exponent)}
    is_float = "float" in call.dtype
    product = _multiply_out(call) if len(types) == 1 or not is_float else None
    if product is not None or (len(types) == 1 and is_float):
        return call.by_tvm() if product is None else product
    wide = "float32" if call.dtype in {"float16", "float32"} else "float64"
    raised = call.emit(relax.op.power, *(_cast(call, each, wide) for each in (base, exponent)))
    return _cast(call, raised, call.dtype)


def _multiply_out(call: NodeCall) -> relax.Expr | None:
    """Return a third or fourth power, or the second of an integer, as products, or None for other powers."""
    given = call.values(1)
    power = None if given is None or given.size != 1 or given.ndim > len(call.shape) else float(given.reshape(()))
    if power not in ({_THIRD, _FOURTH} if "float" in call.dtype else {_SECOND, _THIRD, _FOURTH}):
        return None
    square = call.emit(relax.op.multiply, call.data, call.data)
    return square if power == _SECOND else relax.op.multiply(square, call.data if power == _THIRD else square)


def convert_elu(call: NodeCall) -> relax.Expr:
    """Convert Elu: x, and alpha * (e^x - 1) below zero. TVM's Elu, Selu and ThresholdedRelu support only float32."""
    return call.by_tvm() if call.dtype == "float32" else _elu(call, call.float("alpha", 1.0), 1.0)


def convert_selu(call: NodeCall) -> relax.Expr:
    """Convert Selu: gamma * x, and gamma * alpha * (e^x - 1) below zero."""
    alpha, gamma = call.float("alpha", 1.67326319217681884765625), call.float("gamma", _SELU_GAMMA)
    return call.by_tvm() if call.dtype == "float32" else _elu(call, alpha, gamma)


def convert_thresholded_relu(call: NodeCall) -> relax.Expr:
    """Convert ThresholdedRelu: x if it is above alpha, else 0."""
    if call.dtype == "float32":
        return call.by_tvm()
    above = call.emit(relax.op.greater, call.data, call.number(call.float("alpha", 1.0)))
    return relax.op.where(above, call.data, call.number(0.0))


def convert_bit_shift(call: NodeCall) -> relax.Expr:
    """Convert BitShift; a negative or too large number of bits shifts all bits out, but machines do not define this."""
    by = call.inputs[1]
    kind, bits = str(by.ty.dtype), int("".join(filter(str.isdigit, call.dtype)))
    none, most = call.number(0, kind), call.number(bits - 1, kind)
    safe = call.emit(relax.op.less_equal, by, most)
    if not kind.startswith("u"):
        safe = call.emit(relax.op.logical_and, safe, call.emit(relax.op.greater_equal, by, none))
    if call.text("direction", "LEFT") == "RIGHT" and not call.dtype.startswith("u"):
        # The sign fills all bits when everything is shifted out.
        return relax.op.right_shift(call.data, call.emit(relax.op.where, safe, by, most))
    operator = relax.op.left_shift if call.text("direction", "LEFT") == "LEFT" else relax.op.right_shift
    shifted = call.emit(operator, call.data, call.emit(relax.op.where, safe, by, none))
    return relax.op.where(safe, shifted, call.number(0))


def convert_mod(call: NodeCall) -> relax.Expr:
    """Convert Mod; a remainder of floats has the sign of the divisor, as in Python.

    If the divisor is infinite, the result of TVM would be NaN.
    """
    if call.attributes.get("fmod", 0) or "float" not in call.dtype:
        return call.by_tvm()
    divisor, zero = call.inputs[1], call.number(0.0)
    rest = call.emit(relax.op.mod, call.data, divisor)
    signs = (call.emit(relax.op.less, value, zero) for value in (rest, divisor))
    nonzero = call.emit(relax.op.not_equal, rest, zero)
    differs = call.emit(relax.op.logical_and, call.emit(relax.op.logical_xor, *signs), nonzero)
    return relax.op.where(differs, call.emit(relax.op.add, rest, divisor), rest)


def convert_dropout(call: NodeCall) -> relax.Expr:
    """Convert Dropout as in inference: return the data unchanged, and a mask of ones if the node has a second output.

    TVM always returns two results, and ConvertLayout fails on them if the node has one output ("Expected nested to
    match tuple"). Raises TvmbuildError if the node drops values.
    """
    training, ratio = call.values(2) if len(call.inputs) > 2 else None, call.values(1) if len(call.inputs) > 1 else None
    is_open = len(call.inputs) > 2 and call.inputs[2] is not None and training is None
    drops = training is not None and training.any() and (ratio is None or ratio.any())
    if is_open or drops:
        raise TvmbuildError("it drops values at random, as in training", "export the model for inference")
    if call.outputs == 1:
        return call.data
    mask = call.emit(relax.op.ones, call.data.ty.shape, "bool" if call.opset >= _BOOL_MASKS else call.dtype)
    return relax.Tuple([call.data, mask])


_BOOL_MASKS = 10


def _elu(call: NodeCall, alpha: float, gamma: float) -> relax.Expr:
    less_one = call.emit(relax.op.subtract, call.emit(relax.op.exp, call.data), call.number(1.0))
    below = call.emit(relax.op.multiply, less_one, call.number(alpha * gamma))
    above = call.data if gamma == 1 else call.emit(relax.op.multiply, call.data, call.number(gamma))
    return relax.op.where(call.emit(relax.op.less, call.data, call.number(0.0)), below, above)


def _halves_of_exponentials(call: NodeCall) -> tuple[relax.Expr, relax.Expr]:
    magnitude, half = call.emit(relax.op.abs, call.data), call.number(_LOG_2)
    rising = call.emit(relax.op.exp, call.emit(relax.op.subtract, magnitude, half))
    opposite = call.emit(relax.op.negative, call.emit(relax.op.add, magnitude, half))
    return rising, call.emit(relax.op.exp, opposite)


def _cast(call: NodeCall, expr: relax.Expr, dtype: str) -> relax.Expr:
    return expr if str(expr.ty.dtype) == dtype else call.emit(relax.op.astype, expr, dtype)


def _emit(call: NodeCall, operator: Callable[..., relax.Expr], *arguments: Any) -> relax.Expr:
    return call.emit(operator, *arguments)
