"""The kernel that writes updates into a copy of a tensor on a GPU: a thread for each update.

TVM's functions give a thread to each column and let it go through all updates: where they are rows of 64 elements, 64
threads work; where they are single elements, one does. On an H200, 12,000 rows of 64 elements into 50,000 rows take
26 µs, and 2,120 µs by TVM's function; 8,400 single elements take 15 µs and 549 µs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.loops import each_thread

NAME = "scatter"
"""The name of the function."""


@dataclass(frozen=True)
class Scatter:
    """The shapes of a scatter's operands, and where its updates go.

    With an ``axis`` (ScatterElements), an index replaces an update's own place along it. Without one (ScatterND), the
    last axis of the indices holds the places along the data's first axes; the importer has counted them from the front.
    """

    data: tuple[int, ...]
    indices: tuple[int, ...]
    updates: tuple[int, ...]
    dtype: str
    index_dtype: str
    axis: int | None = None

    def find_place(self, indices: Any, update: Any) -> tuple[Any, Any]:
        """Return (where an update goes in the flat data, whether this is inside)."""
        if self.axis is None:
            return self._find_row(indices, update)
        steps = _strides(self.data)
        places = _coordinates(update, self.updates)
        index, size = T.Bind(indices[update].astype("int64")), self.data[self.axis]
        places[self.axis], inside = _check(tirx.Select(index < int64(0), index + size, index), size)
        return sum((place * step for place, step in zip(places, steps, strict=True)), int64(0)), inside

    def _find_row(self, indices: Any, update: Any) -> tuple[Any, Any]:
        depth = self.indices[-1]
        width, steps = math.prod(self.data[depth:]), _strides(self.data)
        row, column = T.Bind(update // width), T.Bind(update % width)
        place, inside = column, tirx.const(True, "bool")
        for axis in range(depth):
            index, fits = _check(indices[row * depth + axis], self.data[axis])
            place, inside = place + index * steps[axis], tirx.And(inside, fits)
        return place, inside


def write_scatter(form: Scatter) -> tirx.PrimFunc:
    """Return the function (data, indices, updates, result); an index outside the data writes nothing."""
    inputs = [(form.data, form.dtype), (form.indices, form.index_dtype), (form.updates, form.dtype)]
    with begin_kernel(NAME, inputs, [(form.data, form.dtype)]) as (builder, (data, indices, updates, result)):
        with each_thread(math.prod(form.data)) as place:
            T.buffer_store(result, data[place], [place])
        with each_thread(math.prod(form.updates)) as update:
            place, inside = form.find_place(indices, update)
            with T.If(inside), T.Then():
                T.buffer_store(result, updates[update], [place])
    return mark_scheduled(builder.get())


def _check(index: Any, size: int) -> tuple[Any, Any]:
    """Return an index as int64, and whether it is inside."""
    place = T.Bind(index.astype("int64"))
    return place, tirx.And(place >= int64(0), place < int64(size))


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _coordinates(place: Any, shape: Sequence[int]) -> list[Any]:
    return [place // step % size for step, size in zip(_strides(shape), shape, strict=True)]
