"""The description of an attention, from which the kernels of all targets are written: sizes, and operands' places."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tvm import relax
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import OPAQUE, int64, wide
from tvmbuild.compiler.kernels.attention.views import View
from tvmbuild.compiler.kernels.buffers import flatten, whole

# The places of one head's numbers.


@dataclass(frozen=True)
class Buffer:
    """A dense tensor that an attention kernel reads."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Operand:
    """The places of an operand's rows in a dense buffer. Steps are in elements; a step of 0 repeats a number."""

    source: int
    """The index of the buffer in ``Attention.inputs``; -1 for the output and for private copies."""
    offset: int
    heads: tuple[int, ...]
    """The step of each of ``Attention.heads``."""
    row: int
    """The step from one token to the next; in a mask, from one query to the next."""
    column: int
    """The step from one number of a token to the next; in a mask, from one key to the next."""


@dataclass(frozen=True)
class Mask:
    """A mask of the scaled scores. Its numbers are float32."""

    operand: Operand
    fill: float | None = None
    """The number that replaces a score whose mask is 0, or None if the mask is added to the scores."""


@dataclass(frozen=True)
class Attention:
    """softmax(scale · query · keyᵀ, capped, masked) · value for each head, as one function (`call_tir`).

    The function's arguments are ``inputs``, whole dense buffers in their own shapes (one may hold query, key and
    value), and the dense output of ``output_shape``: the first ``rows_after`` axes of ``heads``, the rows, the other
    axes of ``heads``, and ``width``.
    """

    inputs: tuple[Buffer, ...]
    heads: tuple[int, ...]
    """The extents of batch and heads. For grouped queries, the last axis is the queries of a group, along which key and
    value have the step 0."""
    rows: int
    """The number of queries of a head."""
    keys: int
    depth: int
    """The number of elements of a query or key of one head."""
    width: int
    """The number of elements of a value or an output row of one head."""
    query: Operand
    key: Operand
    value: Operand
    masks: tuple[Mask, ...]
    """The masks, in the order in which they are applied."""
    scale: float
    nan_is_zero: bool
    """True if a row whose keys are all masked gets probabilities 0 instead of NaN."""
    rows_after: int
    dtype: str
    """The dtype of query, key, value and output: float32 or float16. Scores and sums are float32."""
    cap: float | None = None
    """The softcap: before masks, the scaled scores become cap · tanh(score)."""
    visible: tuple[tuple[int, int], ...] = ()
    """For each row, the range (begin, end) of the keys that constant masks do not hide; empty if they hide none."""

    @property
    def operations(self) -> int:
        """Return the number of multiplications and additions of the two products, without hidden keys."""
        seen = sum(end - begin for begin, end in self.visible) if self.visible else self.rows * self.keys
        return 2 * math.prod(self.heads) * seen * (self.depth + self.width)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the function's output."""
        return (*self.heads[: self.rows_after], self.rows, *self.heads[self.rows_after :], self.width)

    @property
    def output(self) -> Operand:
        """The place of each row of the output."""
        order = (*range(self.rows_after), *range(self.rows_after + 1, len(self.heads) + 1), self.rows_after, -1)
        steps = _steps(self.output_shape)
        *heads, row, column = (steps[axis] for axis in order)
        return Operand(-1, 0, tuple(heads), row, column)


@dataclass(frozen=True)
class Found:
    """An attention of the graph: its form, and the tensors that are the inputs of the form."""

    form: Attention
    inputs: tuple[relax.Expr, ...]


def fold_groups(form: Attention) -> Attention:
    """Turn the heads of a group, which share keys and values, into rows, if each head has a single query.

    The order of the output stays the same. Other forms are returned unchanged: rows made of several heads with several
    queries each would not have a single step.
    """
    operands = (form.key, form.value)
    if form.rows > 1 or not form.heads or any(each.heads[-1] for each in operands):
        return form
    if any(mask.operand.heads[-1] > 1 for mask in form.masks):
        return form

    def fold(operand: Operand) -> Operand:
        return replace(operand, heads=operand.heads[:-1], row=operand.heads[-1])

    return replace(
        form,
        heads=form.heads[:-1],
        rows=form.heads[-1],
        query=fold(form.query),
        key=replace(form.key, heads=form.key.heads[:-1]),
        value=replace(form.value, heads=form.value.heads[:-1]),
        masks=tuple(replace(mask, operand=fold(mask.operand)) for mask in form.masks),
        rows_after=len(form.heads) - 1,
        visible=form.visible * form.heads[-1],
    )


def make_operand(view: View, source: int) -> Operand | None:
    """Return the operand for a view [heads…, rows, columns] of input ``source``.

    Each factor of the view's head axes becomes a step. Return None if rows or columns do not have a single step.
    """
    *heads, rows, columns = view.axes
    if len(rows) > 1 or len(columns) > 1:
        return None
    row, column = (axis[0].stride if axis else 0 for axis in (rows, columns))
    return Operand(source, view.offset, tuple(factor.stride for axis in heads for factor in axis), row, column)


def _steps(shape: tuple[int, ...]) -> list[int]:
    steps = [1]
    for extent in reversed(shape[1:]):
        steps.insert(0, steps[0] * extent)
    return steps


@dataclass(frozen=True)
class Place:
    """The place of an operand's numbers for one head, in a flat buffer."""

    buffer: Any
    begin: Any
    """The index of the head's first element."""
    operand: Operand

    def at(self, row: Any, column: Any) -> Any:
        """Return the index of the number at (row, column) in the flat buffer."""
        return self.begin + row * int64(self.operand.row) + column * int64(self.operand.column)


@dataclass(frozen=True)
class Places:
    """The places of an attention's operands for one head."""

    query: Place
    key: Place
    value: Place
    masks: tuple[Place, ...]
    output: Place


def find_places(form: Attention, inputs: Sequence[Any], made: Any, head: Any) -> Places:
    """Return the places of the operands of one head in the flat inputs and the flat output ``made``."""
    heads, output = _split(head, form.heads), form.output

    def find(operand: Operand) -> Place:
        begin = int64(operand.offset)
        for index, step in zip(heads, operand.heads, strict=True):
            begin = begin + index * int64(step)
        return Place(made if operand is output else inputs[operand.source], T.Bind(begin), operand)

    masks = tuple(find(mask.operand) for mask in form.masks)
    return Places(find(form.query), find(form.key), find(form.value), masks, find(output))


def _split(index: Any, extents: tuple[int, ...]) -> list[Any]:
    found: list[Any] = []
    for extent in reversed(extents):
        found.insert(0, T.Bind(index % int64(extent)))
        index = index // int64(extent)
    return found


# The frame of every target's function: its name, its arguments, and their memory.


@contextmanager
def begin_function(form: Attention) -> Iterator[tuple[IRBuilder, list[Any], Any]]:
    """Yield (builder, flat inputs, flat output), and write the function's body in the block.

    After the block, ``builder.get()`` returns the function. See :class:`Attention` for the function's arguments.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name("attention")
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE, "estimated_flops": form.operations})
        arguments = [
            T.arg(f"data{place}", T.buffer(wide(*each.shape), each.dtype, layout=None))
            for place, each in enumerate(form.inputs)
        ]
        out = T.arg("out", T.buffer(wide(*form.output_shape), form.dtype, layout=None))
        with T.sblock("root"):
            T.reads(*map(whole, arguments))
            T.writes(whole(out))
            yield builder, list(map(flatten, arguments)), flatten(out)
