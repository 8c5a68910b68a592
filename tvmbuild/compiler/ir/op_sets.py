"""Sets of Relax operators that passes look up; a new operator of the compiler is added here.

A pass does not rewrite an operator that is missing from its set: the result is then slower, but never wrong.
"""

from __future__ import annotations


def _relax(*names: str) -> frozenset[str]:
    return frozenset(f"relax.{name}" for name in names)


ARITHMETIC = _relax("add", "subtract", "multiply", "divide", "maximum", "minimum")
SIGNS = _relax("abs", "negative", "nn.relu")
MOVES = _relax(
    *("broadcast_to", "concat", "expand_dims", "flip", "permute_dims", "repeat", "reshape", "split", "squeeze"),
    *("stack", "strided_slice", "take", "tile", "where"),
)
"""Operators that only move elements."""
COMPARISONS = _relax("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
ELEMENTWISE = (
    ARITHMETIC
    | SIGNS
    | COMPARISONS
    | _relax(
        *("acos", "asin", "astype", "atan", "ceil", "cos", "cosh", "erf", "exp", "floor", "floor_divide", "floor_mod"),
        *("isfinite", "isinf", "isnan", "log", "logical_and", "logical_not", "logical_or", "logical_xor", "mod"),
        *("nn.gelu", "nn.leakyrelu", "nn.silu", "power", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt"),
        *("square", "tan", "tanh", "trunc", "where"),
    )
)
"""Operators whose result at an index depends only on the operands at that index: transposes may move past them."""
CHANNEL_FILLING = (
    (ARITHMETIC - _relax("divide")) | SIGNS | _relax("astype", "clip", "exp", "nn.silu", "round", "sigmoid", "tanh")
)
"""Elementwise operators between integer convolutions that may also compute the channels added by padding."""
ROW_COMPUTABLE = ARITHMETIC | _relax("tanh", "sigmoid", "exp", "nn.relu")
"""Operators that may be computed on all rows of a constant table before a lookup, instead of on its result."""
EXACT = (
    ARITHMETIC
    | SIGNS
    | MOVES
    | _relax("astype", "clip", "gather_elements", "layout_transform", "max", "min", "nn.leakyrelu", "nn.max_pool2d")
    | _relax("nn.pad", "sqrt", "square")
)
"""Operators that are exact, or rounded as IEEE 754 requires: equal inputs give equal results on every machine.

Others, for example a sum of many numbers or an exponential, may differ in the last bits between machines.
"""
DISCONTINUOUS = COMPARISONS | _relax(
    *("argmax", "argmin", "ceil", "floor", "floor_divide", "floor_mod", "mod", "sign", "trunc")
)
"""Operators where the last bit of an input may change the result completely."""
IN_16_BITS = (
    ARITHMETIC
    | SIGNS
    | MOVES
    | _relax("flatten", "max", "min", "nn.leakyrelu", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
    | _relax("nn.pad", "nn.prelu")
)
"""Operators that run in 16 bits if every operand has 16 bits or is a constant that 16 bits can hold."""
BOUNDED = _relax(
    *("erf", "mean", "sigmoid", "tanh", "image.resize2d", "nn.gelu", "nn.layer_norm", "nn.silu", "nn.softmax"),
    *("nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"),
)
"""Operators computed in float32 and stored in 16 bits: their results are at most as large as their inputs.
Operators that are neither here nor in `IN_16_BITS` stay in float32, except products."""
