"""The kernel that divides a vector by its Euclidean length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvmbuild.compiler.ir.expressions import float32
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import one_block
from tvmbuild.compiler.kernels.results.visits import BlockVisits, VectorVisits, Visits
from tvmbuild.compiler.kernels.vectors import spread, store

_TINY = 1e-12
"""The smallest divisor, which is that of PyTorch's `normalize`."""


@dataclass(frozen=True)
class PlainVector:
    """A vector in one output of a network."""

    count: int
    output: Form
    normalise: bool


def write_vector(form: PlainVector, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from the output to the vector [count], float32. One thread or one block writes it."""
    with begin_kernel("vector", [form.output], [((form.count,), "float32")]) as (builder, buffers):
        if on_gpu:
            with one_block() as thread:
                _write(form, BlockVisits(form.count, buffers[0], thread), buffers[1])
        else:
            _write(form, VectorVisits(form.count, buffers[0]), buffers[1])
    return mark_scheduled(builder.get())


def _write(form: PlainVector, visits: Visits, vector: Any) -> None:
    length = float32(1)
    if form.normalise:
        squares = visits.fold(0.0, lambda a, b: a + b, lambda value, _: value * value)
        length = tirx.Max(tirx.sqrt(squares), float32(_TINY))
    visits.each(lambda at, lanes: store(vector, visits.load(at, lanes) / spread(length, lanes), at, lanes))
