"""Depthwise convolutions by a dot instruction that adds up neighbouring columns of each channel, not channels.

In memory, the channels of a pixel are adjacent. Four columns of some channels are therefore interleaved first. All rows
of a window use these interleaved columns, and so do neighbouring windows in the same columns. Each of these windows has
its own shifted weights, with zeros in the columns that it does not cover.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from tvmbuild.compiler.codegen.column_intrinsics import BYTES, join_bytes, multiply_words
from tvmbuild.compiler.ir.expressions import int64, static_shape
from tvmbuild.compiler.kernels.int8.dot_kernels import Padded, finish, pad, placeholder, reduce_over
from tvmbuild.compiler.machine.dot_instructions import ANNOTATION, COLUMNS, DotInstruction

SHORT = 16
"""The longest row of outputs that is unrolled, so that a window's index among those that share columns is known without
a loop."""


@dataclass(frozen=True)
class Window:
    """The columns of a depthwise convolution that a few executions of an instruction add up, and their windows."""

    instruction: DotInstruction
    stride: int
    uses: int
    """The number of executions of the instruction for one row of a window."""
    shared: int
    """The number of neighbouring windows that fit into the columns of these executions."""

    @property
    def columns(self) -> int:
        """The number of columns that the uses for one row of a window read."""
        return self.uses * BYTES


def choose_window(call: relax.Call, padded: Padded, instruction: DotInstruction) -> Window | None:
    """Return the window of an NHWC depthwise convolution, or None if the instruction or the shape does not fit."""
    source, shape = static_shape(padded.source), static_shape(call)
    if not instruction.adds_columns or source is None or shape is None or shape[-1] % instruction.lanes:
        return None
    if str(padded.source.ty.dtype) != instruction.tensor or any(int(each) != 1 for each in call.attrs.dilation):
        return None
    rows, width = (int(each) for each in call.args[1].ty.shape.values[:2])
    stride, uses = int(call.attrs.strides[1]), -(-width // BYTES)
    if rows * uses == 1:
        return None
    most = (uses * BYTES - width) // stride + 1
    if most < 2:
        return None
    shared = most if shape[2] <= SHORT else max(each for each in range(1, most + 1) if shape[2] % each == 0)
    return Window(instruction, stride, uses, shared)


def pack_window(weights: np.ndarray[Any, Any], window: Window) -> np.ndarray[Any, Any]:
    """Pack HWIO weights as windows x rows x uses x channels; each element is an int32 word of four columns."""
    rows, columns, _, channels = weights.shape
    made = np.zeros((window.shared, rows, window.columns, channels), np.int8)
    for place in range(window.shared):
        first = place * window.stride
        made[place, :, first : first + columns] = weights[:, :, 0]
    apart = made.reshape(window.shared, rows, window.uses, BYTES, channels)
    return np.ascontiguousarray(apart.transpose(0, 1, 2, 4, 3)).view("<i4")[..., 0]


def write_windows(
    call: relax.Call, padded: Padded, packed: relax.Expr, window: Window, begin: relax.Expr | None = None
) -> tirx.PrimFunc:
    """Write the function of a depthwise convolution's sums.

    Each sum starts from its channel's number in ``begin``, or from 0 without ``begin``.
    """
    shared, down = window.shared, int(call.attrs.strides[0])
    batch, _, width, channels = (int(each) for each in call.ty.shape.values)
    _, rows, uses, _ = (int(each) for each in packed.ty.shape.values)
    step, sets = shared * window.stride, -(-width // shared)
    padded = _reach(padded, (sets - 1) * step + window.columns)
    data, weights, *first = (placeholder(each) for each in (padded.source, packed, begin) if each is not None)
    read = pad(data, padded)

    # If the step between sets is a whole number of words, sets share words: the next set reads the last words first.
    further, rest = divmod(step, BYTES)
    words, apart = ((sets, uses), step) if rest else (((sets - 1) * further + uses, 1), BYTES)

    def interleave(n: Any, y: Any, x: Any, use: Any, c: Any) -> Any:
        return join_bytes([read[n, y, x * apart + use * BYTES + place, c] for place in range(BYTES)])

    extents = [int64(each) for each in (batch, int(read.shape[1]), *words, channels)]
    columns = te.compute(extents, interleave, name="columns", attrs={ANNOTATION: COLUMNS})
    row, use = reduce_over(rows, uses)

    def add_up(n: Any, y: Any, x: Any, c: Any) -> Any:
        word = (x // shared, use) if rest else (x // shared * further + use, 0)
        product = multiply_words(columns(n, y * down + row, *word, c), weights[x % shared, row, use, c])
        return te.sum(product, axis=[row, use])

    attributes = {ANNOTATION: window.instruction.of_columns}
    whole = te.compute(call.ty.shape.values, add_up, name="conv2d_int8_depthwise", attrs=attributes)
    return finish([data, weights, *first, whole], whole.op.name if first else None)


def _reach(padded: Padded, columns: int) -> Padded:
    """Pad the tensor to at least ``columns`` columns; columns beyond the last window are multiplied by weights of 0."""
    has = int(padded.source.ty.shape.values[2]) + padded.before[1] + padded.after[1]
    below, beside = padded.after
    return replace(padded, after=(below, beside + max(0, columns - has)))
