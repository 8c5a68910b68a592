"""The padding of a convolution's input, a few rows at a time, just before the convolution reads the rows.

A separate pass would write the padded picture to the second-level cache and read it from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import s_tir

from tvmbuild.compiler.machine.machine import CHUNKS_PER_THREAD, Machine, divisors, power_of_two_divisor
from tvmbuild.compiler.schedules.access import Access
from tvmbuild.compiler.schedules.nest import Axis, Nest, view_nest


@dataclass(frozen=True)
class Padding:
    """The block that pads an input of a reduction, and the axis of the output along which it can pad in parts."""

    nest: Nest
    rows: Axis
    step: int
    """The number of bytes of the padded input for each step along ``rows``."""
    window: int
    """The number of bytes of the padded input that the next part reads, too."""

    @property
    def is_best_near(self) -> bool:
        """Return whether to pad a few rows at a time, which is better if the padding also changes a picture's layout.

        The time of a convolution of many channels hardly depends on its padding, but parts pad their common rows again.
        """
        last = self.nest.axes[-1]
        return any(load.stride(last.var) != 1 for load in self.nest.loads)

    def rows_at_once(self, machine: Machine) -> int:
        """Return the number of output rows to pad for together: few enough for the cache and for all threads."""
        fitting = max(1, (machine.limits.near_rows - self.window) // self.step)
        enough = self.rows.extent // (CHUNKS_PER_THREAD * machine.threads) if machine.threads > 1 else fitting
        return divisors(self.rows.extent, max(1, min(fitting, enough)))[-1]


def find_padding(sch: s_tir.Schedule, nest: Nest, tiled: tuple[Axis | None, ...]) -> Padding | None:
    """Return the block that pads an input of the nest, or None if there is none or its rows are a tiled axis."""
    for producer in sch.get_producers(nest.block):
        pad = view_nest(sch, producer)
        if pad is None or pad.store is None or not pad.conditions or len(sch.get_consumers(producer)) > 1:
            continue
        for load in nest.loads:
            if load.buffer.same_as(pad.store.buffer):
                found = _view(pad, nest, load)
                return None if found is None or any(found.rows is axis for axis in tiled) else found
    return None


def _view(pad: Nest, nest: Nest, load: Access) -> Padding | None:
    steps = [(load.stride(axis.var) or 0, place, axis) for place, axis in enumerate(nest.spatial) if axis.extent > 1]
    if not steps:
        return None
    step, _, rows = max(steps, key=lambda each: each[:2])
    window = sum((load.stride(axis.var) or 0) * (axis.extent - 1) for axis in nest.reduced)
    return Padding(pad, rows, step * load.bits // 8, window * load.bits // 8) if step > 0 else None


def pad_near(sch: s_tir.Schedule, padding: Padding, outer: tuple[Any, ...], machine: Machine) -> tuple[Any, ...]:
    """Pad inside a new outermost loop, and return the new loops around the tile; ``outer`` are the loops until now.

    Only the first of the returned loops may be divided among threads.
    """
    part, row = sch.split(padding.rows.loop, [None, padding.rows_at_once(machine)])
    loops = (part, *(row if loop is padding.rows.loop else loop for loop in outer))
    sch.reorder(*loops)
    pad = padding.nest
    sch.compute_at(pad.block, part)
    last = pad.axes[-1]
    lanes = power_of_two_divisor(last.extent, machine.lanes(pad.bits))
    in_order = pad.store is not None and pad.store.stride(last.var) == 1 and not padding.is_best_near
    if in_order and lanes > 1 and not pad.is_conditional_on(last):
        _, inner = sch.split(sch.get_loops(pad.block)[-1], [None, lanes])
        sch.vectorize(inner)
    return loops
