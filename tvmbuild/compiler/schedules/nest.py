"""The view of a block that schedule rules use: its loops, and how each access moves with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir, sym, tirx

from tvmbuild.compiler.machine.machine import CHUNKS_PER_THREAD, PARALLEL_WORK, Machine
from tvmbuild.compiler.schedules.access import (
    Access,
    collect,
    find_bound,
    list_comparisons,
    list_divisors,
    list_moduli,
    uses,
)
from tvmbuild.compiler.schedules.attempt import ScheduleRefused

MAX_TOGETHER = 8
"""The largest number of steps of a loop that are unrolled together."""


@dataclass(frozen=True)
class Variant:
    """A deviation from a rule's own decisions, which a search measures."""

    rank: int = 0
    """The rank of the tile; 0 is the best one."""
    swap_outer_loops: bool = False
    """True if the tiles are visited in the other order."""
    flip_padding: bool = False
    """True to pad the other way than the rule prefers: the whole input first, or a few rows at a time."""
    blocked: bool = False
    """True if long sums are computed in blocks."""


@dataclass(frozen=True)
class Axis:
    """A loop around a block, and the block variable that runs with it."""

    loop: Any
    var: Any
    extent: int
    reduces: bool


@dataclass(frozen=True)
class Nest:
    """A block under one loop for each of its variables."""

    block: Any
    axes: tuple[Axis, ...]
    store: Access | None
    """The block's store, or None if the block is not a single plain store."""
    loads: tuple[Access, ...]
    """The loads, except those of the block's own output."""
    conditions: tuple[Any, ...]
    """The conditions of branches, simplified, and only those that may be true and false."""
    calls: int
    """The number of calls of functions, for example exp."""
    is_copy: bool = False
    """True if the stored value is a load and nothing else."""

    @property
    def spatial(self) -> tuple[Axis, ...]:
        """Return the axes of the output."""
        return tuple(axis for axis in self.axes if not axis.reduces)

    @property
    def reduced(self) -> tuple[Axis, ...]:
        """Return the axes that are summed over."""
        return tuple(axis for axis in self.axes if axis.reduces)

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Return the loads and the store."""
        return (*self.loads, *([self.store] if self.store else []))

    @property
    def bits(self) -> int:
        """Return the width of the widest element that is loaded or stored, in bits."""
        return max(access.bits for access in self.accesses)

    @property
    def work(self) -> int:
        """Return the approximate number of scalar operations in the block."""
        return count(self.axes) * (1 + 8 * self.calls)

    def is_conditional_on(self, axis: Axis) -> bool:
        """Return whether a branch of the block depends on the axis."""
        return any(uses(condition, axis.var) for condition in self.conditions)

    def is_in_lanes(self, axis: Axis) -> bool:
        """Return whether each step along the axis moves each operand by one element or not at all, without a branch.

        Return False if an operand is Boolean, because GPUs have no vectors of Booleans.
        """
        smooth = not self.is_conditional_on(axis) and not any(each.is_bool for each in self.accesses)
        return smooth and {each.stride(axis.var) for each in self.accesses} <= {0, 1}

    def find_period(self, axis: Axis) -> int:
        """Return the number of steps along the axis after which the branches repeat.

        Return 1 if they do not repeat, or only after more than `MAX_TOGETHER` steps.
        """
        periods = {period for condition in self.conditions for period in list_moduli(condition, axis.var)}
        small = [each for each in periods if 1 < each <= MAX_TOGETHER and axis.extent % each == 0]
        return max(small, default=1)

    def find_piece(self, axis: Axis) -> int:
        """Return the largest number of steps along the axis within which each load moves by one element or not at all.

        The axis is one that a reshape has made of several. Return 1 if there is no such number.
        """
        divisors = {each for load in self.loads for index in load.indices for each in list_divisors(index, axis.var)}
        pieces = sorted((each for each in divisors if each > 1 and axis.extent % each == 0), reverse=True)
        return next((each for each in pieces if self._is_smooth_within(axis, each)), 1)

    def _is_smooth_within(self, axis: Axis, piece: int) -> bool:
        return all(load.stride_within(axis.var, piece) in {0, 1} for load in self.loads)

    def find_part(self, axis: Axis) -> int:
        """Return the largest number of steps along the axis that never begin or end within a branch.

        Return 1 if a branch does not compare the axis with a constant.
        """
        bounds = [find_bound(condition, axis.var) for condition in self.conditions if uses(condition, axis.var)]
        known = [bound for bound in bounds if bound is not None]
        return math.gcd(axis.extent, *known) if known and len(known) == len(bounds) else 1

    def has_fixed_branches(self, axis: Axis) -> bool:
        """Return whether a branch ends at the same place of the axis wherever the other axes are, or at none.

        A branch that elements along the axis decide, for example their signs, ends at none.
        """
        others = [each.var for each in self.axes if each is not axis]
        along = [each for condition in self.conditions for each in list_comparisons(condition) if uses(each, axis.var)]
        return not along or any(collect(each).loads or not any(uses(each, other) for other in others) for each in along)


def require_nest(sch: s_tir.Schedule, block: Any) -> Nest:
    """Return the block's loops and accesses, or raise ScheduleRefused if no rule knows their form."""
    nest = view_nest(sch, block)
    if nest is None:
        raise ScheduleRefused("its loops or what it reads and writes are of a form that no rule knows")
    return nest


def view_nest(sch: s_tir.Schedule, block: Any) -> Nest | None:
    """Return the block's nest, or None if loops and variables do not correspond, or a size is unknown."""
    stmt = sch.get(block)
    loops = sch.get_loops(block)
    variables = list(stmt.iter_vars) if loops else []  # a tensor without axes has a variable of one value, and no loop
    if len(loops) != len(variables) or not (loops or all(_has_one_value(var) for var in stmt.iter_vars)):
        return None
    axes = []
    for loop, var in zip(loops, variables, strict=True):
        extent = sch.get(loop).extent
        if not isinstance(extent, tirx.IntImm) or var.iter_type not in (tirx.IterVar.DataPar, tirx.IterVar.CommReduce):
            return None
        axes.append(Axis(loop, var.var, int(extent), var.iter_type == tirx.IterVar.CommReduce))
    if not isinstance(stmt.body, tirx.BufferStore):
        return Nest(block, tuple(axes), None, (), (), 0)
    store = Access(stmt.body.buffer, tuple(stmt.body.indices))
    found = collect(stmt.body.value)
    accesses = (store, *found.loads)
    if not all(isinstance(extent, tirx.IntImm) for access in accesses for extent in access.buffer.shape):
        return None
    loads = tuple(load for load in found.loads if not load.buffer.same_as(store.buffer))
    is_copy = isinstance(stmt.body.value, tvm.ir.TensorLoad)
    return Nest(block, tuple(axes), store, loads, _simplify(found.conditions, axes), found.calls, is_copy)


def _simplify(conditions: Sequence[Any], axes: Sequence[Axis]) -> tuple[Any, ...]:
    """Return the conditions without what the ranges of the axes decide."""
    if not conditions:
        return ()
    analyzer = sym.Analyzer()
    for axis in axes:
        dtype = str(axis.var.ty.dtype)
        analyzer.bind(axis.var, tvm.ir.Range(tirx.IntImm(dtype, 0), tirx.IntImm(dtype, axis.extent)))
    simple = (analyzer.simplify(each) for each in conditions)
    return tuple(each for each in simple if not isinstance(each, tirx.IntImm))


def _has_one_value(var: tirx.IterVar) -> bool:
    extent = var.dom.extent
    return isinstance(extent, tirx.IntImm) and int(extent) == 1 and var.iter_type == tirx.IterVar.DataPar


def count(axes: Iterable[Axis]) -> int:
    """Return the number of points that the axes span."""
    return math.prod(axis.extent for axis in axes)


def run_parallel(sch: s_tir.Schedule, loops: Sequence[Any], work: int, machine: Machine) -> None:
    """Run as few of the leading loops in parallel as give enough chunks for the threads, unless the work is small."""
    if machine.threads == 1 or work < PARALLEL_WORK:
        return
    chosen, chunks = [], 1
    for loop in loops:
        if chunks >= CHUNKS_PER_THREAD * machine.threads:
            break
        chosen.append(loop)
        chunks *= int(sch.get(loop).extent)
    if chunks > 1:
        sch.parallel(sch.fuse(*chosen) if len(chosen) > 1 else chosen[0])
