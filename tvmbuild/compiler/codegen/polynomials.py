"""Polynomials as TensorIR expressions of a number or a vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

LN2 = (0.693359375, -2.12194440e-4)
"""The natural logarithm of 2 in two parts; the first part has few digits."""


def bind(value: Any, use: Callable[[Any], Any]) -> Any:
    """Return ``use(variable)``, with the variable bound to the value, so that the value is computed only once."""
    variable = tirx.Var("t", dtype_of(value))
    return tirx.Let(variable, value, use(variable))


def is_float32(x: Any) -> bool:
    """Return whether the expression is a float32 number or vector."""
    return dtype_of(x).partition("x")[0] == "float32"


def dtype_of(x: Any) -> str:
    """Return the name of the expression's type: `float32`, or `float32x16` for a vector."""
    return str(x.ty.dtype)


def call_library(call: Any, *arguments: Any) -> Any:
    """Return the call of LLVM's intrinsic of the same name, which calls the C library; default: with its arguments."""
    given, name = arguments or tuple(call.args), f"llvm.{call.op.name.removeprefix('tirx.')}"
    return tirx.call_llvm_pure_intrin(dtype_of(given[0]), name, *given)


def constant(value: float, like: Any) -> Any:
    """Return the constant with the type of ``like``; for a vector type, each element has the value."""
    return tirx.const(value, dtype_of(like))


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Return a polynomial of x by Horner's scheme; the highest power's coefficient comes first."""
    value = constant(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = value * x + constant(coefficient, x)
    return value


def polynomial_in_parts(coefficients: Sequence[float], x: Any) -> Any:
    """Return a polynomial of x by Estrin's scheme; the highest power's coefficient comes first.

    Estrin's scheme has a few more multiplications than Horner's scheme, but they do not form one chain of dependences.
    """
    terms = [constant(each, x) for each in reversed(coefficients)]

    def halve(parts: Sequence[Any], power: Any) -> Any:
        pairs = [low + high * power for low, high in zip(parts[::2], parts[1::2], strict=False)]
        pairs += parts[len(pairs) * 2 :]
        return pairs[0] if len(pairs) == 1 else bind(power * power, lambda square: halve(pairs, square))

    return halve(terms, x)


def ratio(numerator: Sequence[float], denominator: Sequence[float], x: Any) -> Any:
    """Return x · numerator(x²) / denominator(x²); the highest power's coefficient comes first in both polynomials."""
    return bind(x * x, lambda square: x * polynomial(numerator, square) / polynomial(denominator, square))
