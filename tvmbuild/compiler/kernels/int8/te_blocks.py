"""What functions of integer sums consist of: the data padded and widened, and what sums begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import relax, s_tir, te, tirx, topi

from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, wide
from tvmbuild.compiler.machine.dot_instructions import DotInstruction


@dataclass(frozen=True)
class Padded:
    """A tensor with so many rows and columns more on each side, all of one number."""

    source: relax.Expr
    value: int
    before: tuple[int, int]
    after: tuple[int, int]


def placeholder(expr: relax.Expr) -> te.Tensor:
    """Return a tensor of the expression's shape and type."""
    return te.placeholder(expr.ty.shape.values, str(expr.ty.dtype))


def reduce_over(*extents: int) -> list[Any]:
    """Return axes of sums."""
    return [te.reduce_axis(wide(0, each), name=f"r{place}") for place, each in enumerate(extents)]


def pad(data: te.Tensor, padded: Padded) -> te.Tensor:
    """Return the tensor with its rows and columns; where there are any, in a stage of its own."""
    if not any((*padded.before, *padded.after)):
        return data
    before, after = (wide(0, *sides, 0) for sides in (padded.before, padded.after))
    return topi.nn.pad(data, before, after, tirx.const(padded.value, data.dtype), "pad_temp")


def widen(data: te.Tensor, instruction: DotInstruction) -> te.Tensor:
    """Return what the instruction takes."""
    if instruction.data == instruction.tensor:
        return data
    return te.compute(data.shape, lambda *at: data[at].astype(instruction.data), name="wide")


def finish(arguments: list[te.Tensor], begun: str | None) -> tirx.PrimFunc:
    """Return the function; sums of the block ``begun`` begin with the last but one of the arguments."""
    function = te.create_prim_func(arguments)
    if begun is not None:
        function = _begin(function, begun)
    return function.without_attr("global_symbol").with_attr("op_pattern", FUSABLE_WITH_ELEMENTWISE)


def _begin(function: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    """Return the function whose sums begin with a number of their channel: what TVM makes of it begins with 0."""
    first = function.params[-2]

    def begin(block: s_tir.SBlock) -> s_tir.SBlock:
        if str(block.name_hint) != name:
            return block
        init = tirx.BufferStore(block.init.buffer, first[block.init.indices[-1]], block.init.indices)
        # Not among what it reads: a schedule's update, which has no beginning, must be the instruction's to the letter.
        return s_tir.SBlock(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            block.body,
            init,
            annotations=block.annotations,
        )

    return function.with_body(tvm_ffi.structural_map(function.body, (s_tir.SBlock, begin)))
