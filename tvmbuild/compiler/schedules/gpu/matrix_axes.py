"""The axes of a sum that are the rows, the columns and the depth of a matrix product."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tvm import tirx

from tvmbuild.compiler.schedules.access import Access, uses
from tvmbuild.compiler.schedules.gpu.staged_tiles import Matrices
from tvmbuild.compiler.schedules.gpu.sums import Group
from tvmbuild.compiler.schedules.nest import Nest


@dataclass(frozen=True)
class MatrixAxes:
    """Axes of a sum, by index; ``rows``, ``columns`` and ``depth`` become one axis each."""

    outer: Group
    rows: Group
    columns: Group
    depth: Group
    first: int
    """The index of the load that moves with the rows; the other one moves with the columns."""

    @property
    def all(self) -> tuple[Group, ...]:
        """Return all groups of axes: each outer axis by itself, the rows, the columns, and the depth."""
        return (*((axis,) for axis in self.outer), self.rows, self.columns, self.depth)

    def measure(self, nest: Nest) -> Matrices:
        """Return the sizes of the matrix product."""
        outer, rows, columns, depth = (
            math.prod(nest.axes[at].extent for at in group) for group in (self.outer, *self.all[-3:])
        )
        return Matrices(outer, rows, columns, depth, max(load.bits for load in nest.loads) // 8)

    def measure_runs(self, nest: Nest) -> tuple[int, int]:
        """Return the lengths of contiguous runs, of the first operand along the depth, of the second along columns."""
        first, second = nest.loads[self.first], nest.loads[1 - self.first]
        return _measure_run(first, nest, self.depth), _measure_run(second, nest, self.columns)

    def order_unfolded(self, load: Access, nest: Nest, which: int) -> tuple[Group, ...]:
        """Return the dimensions of an unfolded operand, grouped by the axes that move them.

        The order of the groups is outer, rows, depth for the first operand (``which`` is 0), and outer, depth, columns
        for the second one.
        """
        order = order_of(load, [axis.var for axis in nest.axes]) or []
        groups = (*((axis,) for axis in self.outer), *((self.rows, self.depth), (self.depth, self.columns))[which])
        found = (tuple(at for at, axis in enumerate(order) if axis in group) for group in groups)
        return tuple(group for group in found if group)


def find_axes(nest: Nest) -> MatrixAxes | None:
    """Return the axes of rows, columns and depth, or None if the sum is not a product with this layout of outputs."""
    if nest.store is None:
        return None
    moves = [tuple(load.stride(axis.var) != 0 for load in nest.loads) for axis in nest.axes]
    depth = tuple(at for at, axis in enumerate(nest.axes) if axis.reduces)
    spatial = [at for at, axis in enumerate(nest.axes) if not axis.reduces]
    variables = [axis.var for axis in nest.axes]
    if len(spatial) < 2 or order_of(nest.store, variables) != spatial or not depth:
        return None
    if not all(all(moves[at]) for at in depth) or sum(moves[spatial[-1]]) != 1:
        return None
    second = moves[spatial[-1]].index(True)
    columns = _run(nest, spatial, moves, second)
    rows = _run(nest, spatial[: -len(columns)], moves, 1 - second) if columns else ()
    if not rows or not _joins(nest, depth):
        return None
    return MatrixAxes(tuple(spatial[: -len(columns) - len(rows)]), rows, columns, depth, 1 - second)


def _run(nest: Nest, axes: list[int], moves: list[tuple[bool, ...]], which: int) -> Group:
    """Return the trailing ``axes`` that index only operand ``which``; empty if they cannot be fused into one axis."""
    taken: Group = ()
    for at in reversed(axes):
        if sum(moves[at]) != 1 or not moves[at][which]:
            break
        taken = (at, *taken)
    return taken if _joins(nest, taken) else ()


def _joins(nest: Nest, group: Group) -> bool:
    """Return whether the axes can be joined to one: each operand moves through all of them in steps of one size."""
    wide = [nest.axes[at] for at in group if nest.axes[at].extent > 1]
    for load in nest.loads:
        for axis, following in pairwise(wide):
            step = load.stride(following.var)
            if step is None or load.stride(axis.var) != step * following.extent:
                return False
    return True


def _measure_run(load: Access, nest: Nest, group: Group) -> int:
    """Return the number of contiguous elements along a group of axes, which is 1 if their step is not 1."""
    wide = [at for at in group if nest.axes[at].extent > 1] or [group[-1]]
    joined = math.prod(nest.axes[at].extent for at in group)
    return joined if load.stride(nest.axes[wide[-1]].var) == 1 else 1


def order_of(access: Access, variables: list[Any]) -> list[int] | None:
    """Return, for each index that is not a constant, the position of its variable in ``variables``.

    Return None if an index is neither a constant nor one of these variables.
    """
    found: list[int] = []
    for index in access.indices:
        if isinstance(index, tirx.IntImm):
            continue
        at = next((at for at, each in enumerate(variables) if each.same_as(index)), None)
        if at is None:
            return None
        found.append(at)
    return found


def find_dimensions(load: Access, nest: Nest, groups: MatrixAxes) -> tuple[Group, ...] | None:
    """Return an operand's dimensions, grouped by the group of axes that moves each.

    Return None if the operand is not read whole and in order.
    """
    found: list[tuple[Group, list[int]]] = []
    for at, (index, extent) in enumerate(zip(load.indices, load.shape, strict=True)):
        movers = [
            axis for axis in range(len(nest.axes)) if nest.axes[axis].extent > 1 and uses(index, nest.axes[axis].var)
        ]
        if len(movers) > 1 or (movers and nest.axes[movers[0]].extent != extent) or (not movers and extent > 1):
            return None
        group = next((each for each in groups.all if movers and movers[0] in each), None)
        if found and (group is None or found[-1][0] == group or not found[-1][0]):
            found[-1] = (found[-1][0] or group or (), [*found[-1][1], at])
        else:
            found.append((group or (), [at]))
    whole = [group for group, _ in found]
    return tuple(tuple(dimensions) for _, dimensions in found) if len(set(whole)) == len(whole) else None
