"""Weights in the order in which a dot instruction takes them, and the functions that add up their products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.machine.dot_instructions import DotInstruction

EXACT = 1 << 24
"""Below it float32 has all integers."""
Write = Callable[..., tirx.PrimFunc]
"""Takes what sums begin with, and the type of the result."""


@dataclass(frozen=True)
class DotCall:
    """What a function is called with that adds up products, and how it is written otherwise."""

    name: str
    write: Write
    arguments: tuple[relax.Expr, ...]
    filled: int
    """Outputs, with those that fill vectors."""
    in_floats: int | None = None
    """How much its sums may be, where they are floats."""

    def begin_with(self, addend: relax.Expr, outputs: int) -> DotCall | None:
        """Return the function whose sums begin with a number for each output; None for other addends."""
        values = addend.value.numpy() if isinstance(addend, tvm.ir.GenericConst) else None
        if values is None or values.dtype != np.int32 or values.shape[-1:] != (outputs,) or values.size != outputs:
            return None
        largest = int(np.abs(values.astype(np.int64)).max(initial=0)) + (self.in_floats or 0)
        if len(self.arguments) > 2 or (self.in_floats is not None and largest >= EXACT):
            return None
        filled = np.pad(values.reshape(-1), (0, self.filled - values.size))
        begin = constant(filled if self.in_floats is None else filled.astype(np.float32))
        in_floats = None if self.in_floats is None else largest
        write, arguments = partial(self.write, begin=begin), (*self.arguments, begin)
        return replace(self, write=write, arguments=arguments, in_floats=in_floats)

    def keep_floats(self) -> DotCall | None:
        """Return the function whose sums are not made integers."""
        return None if self.in_floats is None else replace(self, write=partial(self.write, result="float32"))


def add_up_most(weights: np.ndarray[Any, Any]) -> int:
    """Return how much an output's products may be in all."""
    return int(np.abs(weights.astype(np.int64)).sum(axis=(0, 1, 2)).max(initial=0)) * 255


def undo(by: int, weights: np.ndarray[Any, Any], packed: relax.Expr) -> tuple[relax.Expr, ...]:
    """Return what sums of data begin with that are so much more; nothing where they are not."""
    if not by:
        return ()
    begin = -by * weights.astype(np.int64).sum(axis=tuple(range(weights.ndim - 1)))
    return (constant(np.pad(begin.astype(np.int32), (0, count_filled(packed) - begin.size))),)


def count_filled(packed: relax.Expr) -> int:
    """Return how many outputs packed weights have with those that fill vectors."""
    vectors, *_, lanes, _ = (int(each) for each in packed.ty.shape.values[-7:])
    return vectors * lanes


def pack_weights(weights: np.ndarray[Any, Any], instruction: DotInstruction) -> np.ndarray[Any, Any]:
    """Return vectors of outputs x rows x columns x uses of it x steps x outputs x inputs, filled up with zeros."""
    rows, columns, inputs, outputs = weights.shape
    lanes, group = instruction.lanes, instruction.group
    filled = np.pad(weights, ((0, 0), (0, 0), (0, -inputs % group), (0, -outputs % lanes)))
    apart = filled.reshape(rows, columns, -1, instruction.steps, group, filled.shape[3] // lanes, lanes)
    return np.ascontiguousarray(apart.transpose(5, 0, 1, 2, 3, 6, 4))
