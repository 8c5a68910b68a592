"""Integer expressions drawn by hypothesis, in TensorIR and as Python computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tvm import tirx

DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = ("block", "thread", "loop")
"""The leaves with known bounds."""
Values = Mapping[str, int]


@dataclass(frozen=True)
class Drawn:
    """An expression: an operation on others, or a leaf with its value or name in ``of``."""

    name: str
    dtype: str
    of: tuple[Drawn, ...] = ()
    leaf: int | str = 0

    def __str__(self) -> str:
        return f"{self.name}.{self.dtype}({', '.join(map(str, self.of)) or self.leaf})"

    def write(self, leaves: Mapping[str, Any]) -> Any:
        """Return the expression in TensorIR."""
        if self.name == "constant":
            return tirx.const(self.leaf, self.dtype)
        if self.name == "load":
            return leaves[self.dtype]
        if self.name == "number":
            return tirx.Cast(self.dtype, leaves[str(self.leaf)])
        return _WRITE[self.name](self.dtype, *(each.write(leaves) for each in self.of))

    def compute(self, values: Values) -> int:
        """Return the expression's value; sums that overflow wrap."""
        if self.name == "constant":
            return int(self.leaf)
        if self.name == "load":
            return values[self.dtype]
        if self.name == "number":
            return values[str(self.leaf)]
        return wrap(_COMPUTE[self.name](*(each.compute(values) for each in self.of), _bits(self)), self.dtype)


def bounds(dtype: str) -> tuple[int, int]:
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrap(value: int, dtype: str) -> int:
    low, high = bounds(dtype)
    return (value - low) % (high - low + 1) + low


def _bits(node: Drawn) -> int:
    return int(node.dtype.lstrip("uint"))


def _quotient(a: int, b: int, _bits: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_COMPARE: dict[str, tuple[Any, Callable[[int, int], bool]]] = {
    "lt": (tirx.LT, lambda a, b: a < b),
    "le": (tirx.LE, lambda a, b: a <= b),
    "gt": (tirx.GT, lambda a, b: a > b),
    "ge": (tirx.GE, lambda a, b: a >= b),
    "eq": (tirx.EQ, lambda a, b: a == b),
    "ne": (tirx.NE, lambda a, b: a != b),
}
_BINARY: dict[str, tuple[Any, Callable[[int, int, int], int]]] = {
    "add": (tirx.Add, lambda a, b, _: a + b),
    "sub": (tirx.Sub, lambda a, b, _: a - b),
    "mul": (tirx.Mul, lambda a, b, _: a * b),
    "min": (tirx.Min, lambda a, b, _: min(a, b)),
    "max": (tirx.Max, lambda a, b, _: max(a, b)),
    "and": (tirx.bitwise_and, lambda a, b, _: a & b),
    "or": (tirx.bitwise_or, lambda a, b, _: a | b),
    "xor": (tirx.bitwise_xor, lambda a, b, _: a ^ b),
}
_DIVISION: dict[str, tuple[Any, Callable[[int, int, int], int]]] = {
    "div": (tirx.Div, _quotient),
    "mod": (tirx.Mod, lambda a, b, bits: a - b * _quotient(a, b, bits)),
    "floordiv": (tirx.FloorDiv, lambda a, b, _: a // b),
    "floormod": (tirx.FloorMod, lambda a, b, _: a % b),
}
_SHIFT: dict[str, tuple[Any, Callable[[int, int, int], int]]] = {
    "shl": (tirx.shift_left, lambda a, b, bits: a << b % bits),
    "shr": (tirx.shift_right, lambda a, b, bits: a >> b % bits),
}
_COMPUTE: dict[str, Callable[..., int]] = {
    **{name: compute for name, (_, compute) in {**_BINARY, **_DIVISION, **_SHIFT}.items()},
    **{
        f"select_{name}": lambda a, b, c, d, _, holds=holds: c if holds(a, b) else d
        for name, (_, holds) in _COMPARE.items()
    },
    "truth": lambda a, b, _: int(a < b or (a != b and not b <= a)),
    "cast": lambda a, _: a,
    "not": lambda a, _: ~a,
    "abs": lambda a, _: abs(a),
}


def _write_select(node: Any) -> Callable[..., Any]:
    return lambda _dtype, a, b, c, d: tirx.Select(node(a, b), c, d)


def _write_truth(dtype: str, a: Any, b: Any) -> Any:
    return tirx.Cast(dtype, tirx.Or(tirx.LT(a, b), tirx.And(tirx.NE(a, b), tirx.Not(tirx.LE(b, a)))))


_WRITE: dict[str, Callable[..., Any]] = {
    **{name: lambda _dtype, a, b, node=node: node(a, b) for name, (node, _) in {**_BINARY, **_DIVISION}.items()},
    **{
        name: lambda dtype, a, b, node=node: node(
            a, tirx.bitwise_and(b, tirx.const(int(dtype.lstrip("uint")) - 1, dtype))
        )
        for name, (node, _) in _SHIFT.items()
    },
    **{f"select_{name}": _write_select(node) for name, (node, _) in _COMPARE.items()},
    "truth": _write_truth,
    "cast": tirx.Cast,
    "not": lambda _dtype, a: tirx.bitwise_not(a),
    "abs": lambda _dtype, a: tirx.abs(a),
}


def constants(dtype: str) -> st.SearchStrategy[Drawn]:
    low, high = bounds(dtype)
    low, high = low or 1, min(high, 2**63 - 1)  # as TVM folds a product with 0u, less 1u; and has literals
    numbers = st.integers(max(low, -20), 20) | st.integers(low, high) | st.sampled_from([low, high, high // 2 + 1])
    return numbers.map(lambda value: Drawn("constant", dtype, leaf=value))


def _leaves(dtype: str) -> st.SearchStrategy[Drawn]:
    numbers = st.sampled_from(NUMBERS).map(lambda name: Drawn("number", dtype, leaf=name))
    return numbers | numbers | st.just(Drawn("load", dtype)) | constants(dtype)


_NAMES = {
    "binary": tuple(sorted(_BINARY)),
    "divide": ("div", "mod"),
    "floor": ("floordiv", "floormod"),
    "shift": tuple(sorted(_SHIFT)),
    "select": tuple(f"select_{name}" for name in sorted(_COMPARE)),
    "truth": ("truth",),
    "cast": ("cast",),
    "one": ("not", "abs"),
}


@st.composite
def expressions(draw: st.DrawFn, dtype: str | None = None, depth: int = 4) -> Drawn:
    """Draw an expression that is defined for all values of its leaves."""
    dtype = dtype or draw(st.sampled_from(DTYPES))
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(_leaves(dtype))
    kind = draw(st.sampled_from(("binary", "binary", "divide", *_NAMES)))
    name = draw(st.sampled_from(_NAMES[kind]))
    return _make("not" if name == "abs" and dtype[0] == "u" else name, dtype, *_draw_operands(draw, kind, dtype, depth))


def _draw_operands(draw: st.DrawFn, kind: str, dtype: str, depth: int) -> tuple[Drawn, ...]:
    part = expressions(dtype, depth - 1)
    divisors = constants(dtype).filter(lambda each: each.leaf not in (0, -1))
    if kind in ("binary", "shift"):
        return draw(part), draw(part | constants(dtype))
    if kind == "divide":
        return draw(part), draw(divisors | part.map(_make_divisor))
    if kind == "floor":  # of leaves: TVM lowers these, and assumes that nothing wraps
        return draw(_leaves(dtype)), draw(divisors | st.just(_make_divisor(Drawn("load", dtype))))
    if kind == "one":
        return (draw(part),)
    first = draw(expressions(draw(st.sampled_from(DTYPES)), depth - 1))
    if kind == "cast":
        return (first,)
    second = draw(expressions(first.dtype, depth - 1))
    return (first, second) if kind == "truth" else (first, second, draw(part), draw(part))


def _make(name: str, dtype: str, *of: Drawn) -> Drawn:
    """Return an operation; never of constants only, which TVM would compute at once."""
    if all(each.name == "constant" for each in of):
        of = (Drawn("load", of[0].dtype), *of[1:])
    return Drawn(name, dtype, of)


def _make_divisor(value: Drawn) -> Drawn:
    """Return a number that is neither 0 nor -1."""
    return _make("max", value.dtype, value, Drawn("constant", value.dtype, leaf=1))
