"""What polynomials in code are written with: expressions of a number or of a vector of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx


def bind(value: Any, use: Callable[[Any], Any]) -> Any:
    """Return ``use`` of a variable that has the value: as an expression it would be computed at each of its uses."""
    variable = tirx.Var("t", dtype_of(value))
    return tirx.Let(variable, value, use(variable))


def is_float32(x: Any) -> bool:
    """Say whether it is such a number or a vector of them."""
    return dtype_of(x).partition("x")[0] == "float32"


def dtype_of(x: Any) -> str:
    """Return `float32` or, of a vector, `float32x16`."""
    return str(x.ty.dtype)


def constant(value: float, like: Any) -> Any:
    """Return the number in the type of another, a vector of it for a vector."""
    return tirx.const(value, dtype_of(like))


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Horner's scheme, the highest power's coefficient first."""
    value = constant(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = value * x + constant(coefficient, x)
    return value


def polynomial_in_parts(coefficients: Sequence[float], x: Any) -> Any:
    """Estrin's scheme: few multiplications more than Horner's, but no chain of them that each waits for the last."""
    terms = [constant(each, x) for each in reversed(coefficients)]

    def halve(parts: Sequence[Any], power: Any) -> Any:
        pairs = [low + high * power for low, high in zip(parts[::2], parts[1::2], strict=False)]
        pairs += parts[len(pairs) * 2 :]
        return pairs[0] if len(pairs) == 1 else bind(power * power, lambda square: halve(pairs, square))

    return halve(terms, x)


def ratio(numerator: Sequence[float], denominator: Sequence[float], x: Any) -> Any:
    """Return x times a polynomial of x², over another."""
    return bind(x * x, lambda square: x * polynomial(numerator, square) / polynomial(denominator, square))
