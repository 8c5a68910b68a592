"""Kernels that add up integer products, with operands in the order of a dot instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir, te, tirx, topi

from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, INJECTIVE, int64, wide
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import list_blocks, list_within
from tvmbuild.compiler.machine.dot_instructions import ANNOTATION, DotInstruction

CONVOLUTION, PRODUCT = "conv2d_int8", "matmul_int8"
"""The names of the kernels, and of their blocks."""
_FREE = "layout_free_buffers"
"""The attribute in which TVM lists the indices of constant parameters, whose layout a schedule may change."""


def write_dense(
    call: relax.Call,
    padded: Padded,
    packed: relax.Expr,
    instruction: DotInstruction,
    begin: relax.Expr | None = None,
) -> tirx.PrimFunc:
    """Write the function of a dense convolution's sums.

    Each sum starts from its channel's number in ``begin``, or from 0 without ``begin``. ``begin`` also has numbers for
    the channels that pad the last vector.
    """
    data, weights, *first = (placeholder(each) for each in (padded.source, packed, begin) if each is not None)
    read = widen(pad(data, padded), instruction)
    down, right = (int(each) for each in call.attrs.strides)
    below, beside = (int(each) for each in call.attrs.dilation)

    def find(place: Sequence[Any], row: Any, column: Any, k: Any) -> Any:
        n, y, x = place
        return read[n, y * down + row * below, x * right + column * beside, k]

    whole = _sum_up(call, weights, find, instruction, CONVOLUTION)
    return finish([data, weights, *first, _take_channels(whole, call)], whole.op.name if first else None)


def write_groups(call: relax.Call, padded: Padded, packed: relax.Expr, instruction: DotInstruction) -> tirx.PrimFunc:
    """Write the function of the sums of a convolution with groups of several channels.

    If a group's channels do not fill the uses of the instruction, the instruction also reads channels of the next
    group, with weights of 0.
    """
    data, weights = placeholder(padded.source), placeholder(packed)
    read = widen(pad(data, padded), instruction)
    inputs = int(call.args[1].ty.shape.values[2])
    groups, vectors, rows, columns, uses, steps, lanes, own = (int(each) for each in packed.ty.shape.values)
    down, right = (int(each) for each in call.attrs.strides)
    below, beside = (int(each) for each in call.attrs.dilation)
    row, column, use, k = reduce_over(rows, columns, uses, steps * own)

    def multiply(n: Any, y: Any, g: Any, x: Any, c: Any) -> Any:
        channel = g * inputs + use * steps * own + k
        number = read[n, y * down + row * below, x * right + column * beside, channel]
        weight = weights[g, c // lanes, row, column, use, k // own, c % lanes, k % own]
        return te.sum(number.astype("int32") * weight.astype("int32"), axis=[row, column, use, k])

    batch, height, width, outputs = call.ty.shape.values
    filled = (batch, height, *wide(groups), width, *wide(vectors * lanes))
    whole = te.compute(filled, multiply, name=CONVOLUTION, attrs={ANNOTATION: instruction.intrinsic})
    each = int(outputs) // groups
    joined = te.compute(call.ty.shape.values, lambda n, y, x, c: whole[n, y, c // each, x, c % each], name="channels")
    return finish([data, weights, joined], None)


def write_product(
    call: relax.Call,
    source: relax.Expr,
    packed: relax.Expr,
    instruction: DotInstruction,
    begin: relax.Expr | None = None,
) -> tirx.PrimFunc:
    """Write the function of int32 matrix products whose right factor is shared by the batch or one for each sample.

    Each sum starts from its column's number in ``begin``, or from 0 without ``begin``.
    """
    data, weights, *first = (placeholder(each) for each in (source, packed, begin) if each is not None)
    read = widen(data, instruction)

    def find(place: Sequence[Any], _row: Any, _column: Any, k: Any) -> Any:
        return read(*place, k)

    whole = _sum_up(call, weights, find, instruction, PRODUCT)
    return finish([data, weights, *first, _take_channels(whole, call)], whole.op.name if first else None)


def _sum_up(
    call: relax.Call, weights: te.Tensor, find: Callable[..., Any], instruction: DotInstruction, name: str
) -> te.Tensor:
    """Return the sums, padded to whole vectors.

    ``find(place, row, column, k)`` returns the element of the data that a product reads.
    """
    *many, vectors, rows, columns, uses, steps, lanes, own = (int(each) for each in weights.shape)
    row, column, use, k = reduce_over(rows, columns, uses, steps * own)

    def product(*at: Any) -> Any:
        *place, c = at
        number = find(place, row, column, use * steps * own + k)
        weight = weights(*place[: len(many)], c // lanes, row, column, use, k // own, c % lanes, k % own)
        return te.sum(number.astype("int32") * weight.astype("int32"), axis=[row, column, use, k])

    filled = (*call.ty.shape.values[:-1], int64(vectors * lanes))
    return te.compute(filled, product, name=name, attrs={ANNOTATION: instruction.intrinsic})


def _take_channels(whole: te.Tensor, call: relax.Call) -> te.Tensor:
    if int(whole.shape[-1]) == int(call.ty.shape.values[-1]):
        return whole
    return te.compute(call.ty.shape.values, lambda *at: whole[at], name="channels")


def write_packing(matrices: relax.Expr, instruction: DotInstruction) -> tuple[tirx.PrimFunc, Sequence[int]]:
    """Write the function that packs int8 matrices in the same order as constant weights.

    Return the function and the shape of the packed matrices.
    """
    source = placeholder(matrices)
    *many, depth, outputs = (int(each) for each in matrices.ty.shape.values)
    lanes, group, steps = instruction.lanes, instruction.group, instruction.steps
    shape = (*many, -(-outputs // lanes), 1, 1, -(-depth // instruction.depth), steps, lanes, group)

    def read(*at: Any) -> Any:
        *place, vector, _row, _column, use, step, lane, own = at
        k, c = (use * steps + step) * group + own, vector * lanes + lane
        return tirx.if_then_else(tirx.all(k < depth, c < outputs), source(*place, k, c), tirx.const(0, "int8"))

    function = te.create_prim_func([source, te.compute([int64(each) for each in shape], read, name="pack_matrix")])
    return function.without_attr("global_symbol").with_attr("op_pattern", INJECTIVE), shape


def write_depthwise(
    call: relax.Call,
    padded: Padded,
    weights_of: relax.Expr,
    begin: relax.Expr | None = None,
    result: str = "int32",
) -> tirx.PrimFunc:
    """Write the function of a depthwise convolution's sums without a dot instruction, in float32 or int32.

    The data are first widened to the type of the weights. Float32 sums are exact if the weights and the initial values
    are small enough. ``result`` is the dtype of the result.
    """
    data, weights, *first = (placeholder(each) for each in (padded.source, weights_of, begin) if each is not None)
    rows, columns, _ = (int(each) for each in weights_of.ty.shape.values)
    narrow = str(weights_of.ty.dtype)
    wide = "float32" if narrow == "float32" else "int32"
    read = pad(data, padded)
    down, right = (int(each) for each in call.attrs.strides)
    below, beside = (int(each) for each in call.attrs.dilation)
    row, column = reduce_over(rows, columns)

    def product(n: Any, y: Any, x: Any, c: Any) -> Any:
        number = read[n, y * down + row * below, x * right + column * beside, c]
        factors = number.astype(narrow).astype(wide), weights[row, column, c].astype(wide)
        return te.sum(factors[0] * factors[1], axis=[row, column])

    whole = te.compute(call.ty.shape.values, product, name=f"{CONVOLUTION}_depthwise")
    made = whole if wide == result else te.compute(call.ty.shape.values, lambda *at: whole[at].astype(result))
    return finish([data, weights, *first, made], whole.op.name if first else None)


def pin_initial_values(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Keep a search from changing the layout of the sums' initial values, which no block lists among its reads."""
    return map_prim_funcs(mod, _keep_beginning)


def _keep_beginning(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    free, blocks = (function.attrs or {}).get(_FREE), list_blocks(function)
    begun = [load.source for each in blocks if each.init for load in list_within(each.init, tvm.ir.TensorLoad)]
    read = [region.source for each in blocks for region in each.reads]
    if free is None or not begun:
        return None
    kept = [index for index in free if any(each.same_as(function.params[int(index)]) for each in read)]
    return function.with_attr(_FREE, kept) if len(kept) < len(free) else None


# The parts of functions of integer sums: padded and widened data, and the sums' initial values.


@dataclass(frozen=True)
class Padded:
    """An NHWC tensor with additional rows and columns on each side, filled with the number ``value``.

    ``before`` and ``after`` are (rows, columns).
    """

    source: relax.Expr
    value: int
    before: tuple[int, int]
    after: tuple[int, int]


def placeholder(expr: relax.Expr) -> te.Tensor:
    """Return a TE placeholder with the shape and dtype of the expression."""
    return te.placeholder(expr.ty.shape.values, str(expr.ty.dtype))


def reduce_over(*extents: int) -> list[Any]:
    """Return reduction axes of these extents."""
    return [te.reduce_axis(wide(0, each), name=f"r{place}") for place, each in enumerate(extents)]


def pad(data: te.Tensor, padded: Padded) -> te.Tensor:
    """Return the data with the rows and columns of ``padded`` added in a separate stage, if there are any."""
    if not any((*padded.before, *padded.after)):
        return data
    before, after = (wide(0, *sides, 0) for sides in (padded.before, padded.after))
    return topi.nn.pad(data, before, after, tirx.const(padded.value, data.dtype), "pad_temp")


def widen(data: te.Tensor, instruction: DotInstruction) -> te.Tensor:
    """Return the data converted to the dtype that the instruction takes."""
    if instruction.data == instruction.tensor:
        return data
    return te.compute(data.shape, lambda *at: data[at].astype(instruction.data), name="wide")


def finish(arguments: list[te.Tensor], begun: str | None) -> tirx.PrimFunc:
    """Return the function of the tensors ``arguments``; the last tensor is the result.

    If ``begun`` is not None, the sums of this block start from the last argument but one.
    """
    function = te.create_prim_func(arguments)
    if begun is not None:
        function = _begin(function, begun)
    return function.without_attr("global_symbol").with_attr("op_pattern", FUSABLE_WITH_ELEMENTWISE)


def _begin(function: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    """Return the function with sums that start from their channel's number; TVM writes sums that start from 0."""
    first = function.params[-2]

    def begin(block: s_tir.SBlock) -> s_tir.SBlock:
        if str(block.name_hint) != name:
            return block
        init = tirx.BufferStore(block.init.buffer, first[block.init.indices[-1]], block.init.indices)
        # The initial values are not listed among the block's reads: a schedule's update, which has no initial value,
        # must match the instruction exactly.
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
