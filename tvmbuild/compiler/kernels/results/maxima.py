"""The kernel that finds the largest score of each row: the symbol of each step of a text, the peak of each heatmap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import each_block
from tvmbuild.compiler.kernels.results.visits import BlockVisits, VectorVisits, Visits


@dataclass(frozen=True)
class RowMaxima:
    """The largest of ``count`` scores in each row of an output, and its place; of equal ones the first."""

    rows: int
    count: int
    output: Form
    softmax: bool = False
    """True if the softmax of the largest score is wanted, and not the score itself."""

    def list_outputs(self) -> list[Form]:
        """Return the forms of the scores and of the places."""
        return [((self.rows,), "float32"), ((self.rows,), "int32")]


def write_row_maxima(form: RowMaxima, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from an output to the largest score [rows] and its place [rows], int32.

    Threads of a CPU share the rows; a GPU has a block for each.
    """
    with begin_kernel("row_maxima", [form.output], form.list_outputs()) as (builder, buffers):
        if on_gpu:
            with each_block(form.rows) as (row, thread):
                _write(form, BlockVisits(form.count, buffers[0], thread, row * form.count), row, buffers)
        else:
            with T.parallel(int64(form.rows)) as row:
                _write(form, VectorVisits(form.count, buffers[0], row * form.count), row, buffers)
    return mark_scheduled(builder.get())


def _write(form: RowMaxima, visits: Visits, row: Any, buffers: list[Any]) -> None:
    _, scores, places = buffers
    highest, total = visits.find_softmax() if form.softmax else (visits.find_highest(), None)
    place = visits.find_first(highest)
    # All threads of a block have the same values.
    T.buffer_store(scores, highest if total is None else float32(1) / total, [row])
    T.buffer_store(places, place, [row])
