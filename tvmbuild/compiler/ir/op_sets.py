"""Sets of Relax operators that passes ask about: whoever teaches the compiler an operator adds it here.

An operator that is in none of them is left alone by all passes that go by these sets: slower, never wrong.
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
"""What goes in comes out, elsewhere."""
ELEMENTWISE = (
    ARITHMETIC | SIGNS | _relax("nn.silu", "nn.gelu", "sigmoid", "tanh", "erf", "exp", "sqrt", "astype", "round")
)
"""An element of the result depends on the elements at its place alone: transposes may go past."""
CHANNEL_FILLING = (ELEMENTWISE | _relax("clip")) - _relax("divide", "sqrt", "erf", "nn.gelu")
"""Elementwise operators between integer convolutions through which more channels than the model has may go."""
ROW_COMPUTABLE = ARITHMETIC | _relax("tanh", "sigmoid", "exp", "nn.relu")
"""What is computed of a table's rows instead of the rows that are taken from it."""
EXACT = (
    ARITHMETIC
    | SIGNS
    | MOVES
    | _relax("astype", "clip", "gather_elements", "layout_transform", "max", "min", "nn.leakyrelu", "nn.max_pool2d")
    | _relax("nn.pad", "sqrt", "square")
)
"""Exact, or rounded as IEEE 754 says, wherever they run: what goes in comes out of them the same.

A sum of many numbers, an exponential and their like differ in the last bits from machine to machine anyway.
"""
DISCONTINUOUS = _relax(
    *("argmax", "argmin", "ceil", "equal", "floor", "floor_divide", "floor_mod", "greater", "greater_equal"),
    *("less", "less_equal", "mod", "not_equal", "sign", "trunc"),
)
"""A last bit of what goes in may decide about another result."""
IN_16_BITS = (
    ARITHMETIC
    | SIGNS
    | MOVES
    | _relax("flatten", "max", "min", "nn.leakyrelu", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
    | _relax("nn.pad", "nn.prelu")
)
"""In 16 bits where every operand is, or is a constant that 16 bits can hold."""
BOUNDED = _relax(
    *("erf", "mean", "sigmoid", "tanh", "image.resize2d", "nn.gelu", "nn.layer_norm", "nn.silu", "nn.softmax"),
    *("nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"),
)
"""Computed in float32, kept in 16 bits: results cannot be larger than what goes in. All else is float32 throughout."""
