"""Functions that go row by row: all reductions are over the same axes, and intermediate values stay in a row.

A softmax is four passes: the maximum of each row, exponentials, their sum, a division.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.schedules.access import Access, collect
from tvmbuild.compiler.schedules.nest import Axis, Nest, view_nest

COMBINES = (tirx.Add, tirx.Mul, tirx.Max, tirx.Min)


@dataclass(frozen=True)
class Pass:
    """A block of the function, which computes one value for each element of the rows, or one for each row."""

    axes: Mapping[Any, int]
    """A variable of the block → the index of the axis in ``Rows.extents`` along which it runs."""
    idle: tuple[Any, ...]
    """The variables of loops with a single step, which stay 0."""
    store: Access
    value: Any
    """The stored value; for a reduction, the value that it combines."""
    along: bool
    """True if the pass computes or combines a value for each element of a row."""
    combine: Any = None
    """The class of node that combines the values of a reduction, for example Add; None for other passes."""
    identity: Any = None
    bits: int = 32
    calls: int = 0


@dataclass(frozen=True)
class Rows:
    """The passes of a function over rows.

    ``rows`` and ``columns`` are indices into ``extents``, in memory order, the innermost axis last.
    """

    extents: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    """The axes of a row."""
    vector: int
    """The index of the axis along which memory is contiguous: one of ``columns``, or one of ``rows``."""
    passes: tuple[Pass, ...]

    @property
    def across(self) -> bool:
        """Return whether vectors hold one element of each of several rows."""
        return self.vector in self.rows

    def count(self, axes: Sequence[int]) -> int:
        """Return the number of elements that the axes span."""
        product = 1
        for axis in axes:
            product *= self.extents[axis]
        return product


def view_rows(sch: s_tir.Schedule) -> Rows | None:
    """Return the passes of the function over its rows, or None if it has another form."""
    nests = [view_nest(sch, block) for block in sch.get_child_blocks(sch.get_sblock("root"))]
    found = [nest for nest in nests if nest is not None and _is_plain(sch, nest)]
    reductions = [nest for nest in found if nest.reduced]
    if len(found) < len(nests) or not reductions:
        return None
    first = [axis for axis in reductions[0].axes if axis.extent > 1]
    if not any(axis.reduces for axis in first):
        return None
    places = _Places(found, reductions[0], first)
    passes = places.find() and [_make_pass(sch, nest, places) for nest in found]
    if not passes or any(each is None for each in passes):
        return None
    rows = _order(first, reductions[0], tuple(each for each in passes if each is not None))
    branches = rows is not None and any(
        _branches_along(nest, places.of_block[nest.block], rows.vector) for nest in found
    )
    return None if branches else rows


def _is_plain(sch: s_tir.Schedule, nest: Nest) -> bool:
    """Return whether each point of the block writes another element of a tensor, and no operand is Boolean."""
    if nest.store is None or any(access.is_bool for access in (nest.store, *nest.loads)):
        return False
    if nest.reduced and sch.get(nest.block).init is None:
        return False
    written = [index for index in nest.store.indices if not isinstance(index, tirx.IntImm)]
    long = [axis for axis in nest.spatial if axis.extent > 1]
    return all(any(index.same_as(axis.var) for axis in nest.spatial) for index in written) and all(
        sum(index.same_as(axis.var) for index in written) == 1 for axis in long
    )


class _Places:
    """The assignment of an axis of the rows to each variable of each block."""

    def __init__(self, nests: Sequence[Nest], reference: Nest, axes: Sequence[Axis]) -> None:
        self.nests = nests
        self.axes = axes
        self.of_block: dict[Any, dict[Any, int]] = {nest.block: {} for nest in nests}
        self.of_block[reference.block] = {axis.var: number for number, axis in enumerate(axes)}
        self.made = [nest.store.buffer for nest in nests if nest.store is not None]
        self.of_buffer: dict[Any, list[int | None]] = {}

    def find(self) -> bool:
        """Match the axes of blocks that write and read the same buffer; return False if they disagree."""
        for _ in range(2 * len(self.nests)):
            before = sum(map(len, self.of_block.values()))
            if not all(self._link(nest) for nest in self.nests):
                return False
            if before == sum(map(len, self.of_block.values())):
                break
        return all(self._complete(nest) and self._link(nest) for nest in self.nests)

    def _link(self, nest: Nest) -> bool:
        accesses = [nest.store, *(load for load in nest.loads if any(load.buffer.same_as(each) for each in self.made))]
        return all(self._agree(nest, access) for access in accesses if access is not None)

    def _agree(self, nest: Nest, access: Access) -> bool:
        known, places = self.of_buffer.setdefault(access.buffer, [None] * len(access.shape)), self.of_block[nest.block]
        for dimension, (index, extent) in enumerate(zip(access.indices, access.shape, strict=True)):
            if extent == 1:
                continue
            if not any(index.same_as(axis.var) and axis.extent == extent for axis in nest.axes):
                return False
            here, there = places.get(index), known[dimension]
            if here is None and there is not None:
                if there in places.values() or self.axes[there].extent != extent:
                    return False
                places[index] = there
            elif here is not None and there is None:
                known[dimension] = here
            elif here != there:
                return False
        return True

    def _complete(self, nest: Nest) -> bool:
        """Assign the remaining axes, in order, to variables that no shared buffer determines.

        Return False if the axes do not fit.
        """
        places = self.of_block[nest.block]
        for axis in nest.axes:
            if axis.extent > 1 and axis.var not in places:
                left = (number for number in range(len(self.axes)) if number not in places.values())
                fitting = [number for number in left if self.axes[number].extent == axis.extent]
                if not fitting:
                    return False
                places[axis.var] = fitting[0]
        reduced = {number for number, axis in enumerate(self.axes) if axis.reduces}
        theirs = {places[axis.var] for axis in nest.reduced if axis.extent > 1}
        taken = set(places.values())
        if nest.reduced:
            return theirs == reduced and taken == set(range(len(self.axes)))
        return taken in (set(range(len(self.axes))), set(range(len(self.axes))) - reduced)


def _make_pass(sch: s_tir.Schedule, nest: Nest, places: _Places) -> Pass | None:
    block, store = sch.get(nest.block), nest.store
    if store is None:
        return None
    axes = places.of_block[nest.block]
    reduced = {number for number, axis in enumerate(places.axes) if axis.reduces}
    along = bool(reduced & set(axes.values()))
    value, idle = block.body.value, tuple(axis.var for axis in nest.axes if axis.extent == 1)
    if not nest.reduced:
        return Pass(axes, idle, store, value, along, bits=nest.bits, calls=nest.calls)
    kind = next((kind for kind in COMBINES if isinstance(value, kind)), None)
    if kind is None or not isinstance(block.init, tirx.BufferStore):
        return None
    total, summand = value.a, value.b
    own = isinstance(total, tvm.ir.TensorLoad) and total.source.same_as(store.buffer)
    if not own or any(load.buffer.same_as(store.buffer) for load in collect(summand).loads):
        return None
    if collect(block.init.value).loads:  # each lane would begin with this value
        return None
    return Pass(axes, idle, store, summand, True, kind, block.init.value, nest.bits, nest.calls)


def _order(axes: Sequence[Axis], reference: Nest, passes: tuple[Pass, ...]) -> Rows | None:
    """Order the axes as in the memory of the largest tensor that the first reduction reads.

    Return None if no axis is contiguous.
    """
    strides = {number: _stride(axis, reference) for number, axis in enumerate(axes)}
    vector = next((number for number, stride in strides.items() if stride == 1), None)
    if vector is None:
        return None
    ordered = sorted(strides, key=lambda number: -(strides[number] or 1 << 62))
    rows, columns = ([each for each in ordered if axes[each].reduces is kind] for kind in (False, True))
    extents = tuple(axis.extent for axis in axes)
    return Rows(extents, tuple(rows), tuple(columns), vector, passes)


def _stride(axis: Axis, reference: Nest) -> int | None:
    widest = max(reference.loads, key=lambda load: load.elements)
    return widest.stride(axis.var)


def _branches_along(nest: Nest, axes: Mapping[Any, int], vector: int) -> bool:
    return any(nest.is_conditional_on(axis) for axis in nest.axes if axes.get(axis.var) == vector)
