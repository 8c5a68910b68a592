"""Views of dense tensors: reshapes, transposes, slices and repetitions without a copy.

Each axis of a view has factors, the outermost first. For example, an axis into which batch and heads were merged has
two factors, each with its own step, which a single stride could not express.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Factor:
    """A loop over elements: its number of iterations, and its step in elements. A step of 0 repeats an element."""

    extent: int
    stride: int


Axis = tuple[Factor, ...]
"""The factors of an axis, the outermost first, all of extent 2 or more; an axis of one element has no factors."""


@dataclass(frozen=True)
class View:
    """The places of a tensor's elements in another, dense tensor; ``offset`` is the place of the first element."""

    axes: tuple[Axis, ...]
    offset: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes."""
        return tuple(map(axis_extent, self.axes))

    def is_dense(self) -> bool:
        """Return whether the view has the elements of the dense tensor in their order, from the first one on."""
        return self.offset == 0 and merge(sum(self.axes, ())) == merge(sum(dense(self.shape).axes, ()))

    def permute(self, order: Sequence[int]) -> View:
        """Return the view with its axes in another order."""
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def reshape(self, shape: Sequence[int]) -> View | None:
        """Return the view in another shape with as many elements, or None if factors cannot express it."""
        left = [factor for axis in self.axes for factor in axis]
        axes = []
        for extent in shape:
            taken = _take(left, extent)
            if taken is None:
                return None
            axes.append(taken)
        return replace(self, axes=tuple(axes))

    def slice(self, axis: int, begin: int, end: int, step: int = 1) -> View | None:
        """Return the elements ``begin``, ``begin`` + ``step``, … before ``end`` of an axis, or None.

        Return None if the factors of the axis cannot express this slice.
        """
        factors = self.axes[axis]
        if (begin, step) == (0, 1) and end == axis_extent(factors):
            return self
        if len(factors) > 1:
            return self._slice_outermost(axis, begin, end, step)
        (stride,) = [factor.stride for factor in factors] or [0]
        part = _axis(Factor(-(-(end - begin) // step), stride * step))
        return self._with_axis(axis, part, begin * stride)

    def _slice_outermost(self, axis: int, begin: int, end: int, step: int) -> View | None:
        first, *rest = self.axes[axis]
        size = axis_extent(rest)
        if step != 1 or begin % size or end % size:
            return None
        part = (*_axis(Factor((end - begin) // size, first.stride)), *rest)
        return self._with_axis(axis, part, begin // size * first.stride)

    def broadcast(self, shape: Sequence[int]) -> View:
        """Return the view broadcast to a shape: repeated along new leading axes and along axes of extent 1."""
        axes = ((),) * (len(shape) - len(self.axes)) + self.axes
        return replace(
            self, axes=tuple(axis or _axis(Factor(extent, 0)) for axis, extent in zip(axes, shape, strict=True))
        )

    def repeat(self, axis: int, times: int, *, each: bool) -> View:
        """Return the view with an axis repeated ``times`` times: each element if ``each``, else the axis as a whole."""
        factors, again = self.axes[axis], _axis(Factor(times, 0))
        return self._with_axis(axis, (*factors, *again) if each else (*again, *factors), 0)

    def _with_axis(self, axis: int, factors: Axis, further: int) -> View:
        axes = (*self.axes[:axis], factors, *self.axes[axis + 1 :])
        return View(axes, self.offset + further)


def dense(shape: Sequence[int]) -> View:
    """Return the view of a whole dense tensor of this shape, in its own order."""
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return View(tuple(_axis(Factor(*each)) for each in zip(shape, steps, strict=True)))


def axis_extent(factors: Sequence[Factor]) -> int:
    """Return the number of elements of an axis."""
    return math.prod(factor.extent for factor in factors)


def merge(factors: Sequence[Factor]) -> Axis:
    """Return the fewest factors with the same elements in the same order."""
    merged: list[Factor] = []
    for factor in factors:
        if merged and merged[-1].stride == factor.extent * factor.stride:
            factor = Factor(merged.pop().extent * factor.extent, factor.stride)  # noqa: PLW2901
        merged.append(factor)
    return tuple(merged)


def refine(axes: Sequence[Axis]) -> list[Axis] | None:
    """Split axes that all have the same extent into factors of the same extents, or return None if impossible."""
    left = [list(axis) for axis in axes]
    made: list[list[Factor]] = [[] for _ in axes]
    while any(left):
        if not all(left):
            return None
        extent = min(each[-1].extent for each in left)
        for rest, result in zip(left, made, strict=True):
            last = rest.pop()
            if last.extent % extent:
                return None
            rest.extend(_axis(Factor(last.extent // extent, last.stride * extent)))
            result.insert(0, Factor(extent, last.stride))
    return [tuple(each) for each in made]


def _axis(factor: Factor) -> Axis:
    return () if factor.extent == 1 else (factor,)


def _take(left: list[Factor], extent: int) -> Axis | None:
    """Remove the outermost factors with the product ``extent`` from ``left``, and return them.

    A factor is split if needed. Return None if the extents do not divide each other.
    """
    taken: list[Factor] = []
    while extent > 1:
        first = left.pop(0)
        if first.extent > extent:
            if first.extent % extent:
                return None
            inner = first.extent // extent
            left.insert(0, Factor(inner, first.stride))
            first = Factor(extent, first.stride * inner)
        if extent % first.extent:
            return None
        extent //= first.extent
        taken.append(first)
    return tuple(taken)
