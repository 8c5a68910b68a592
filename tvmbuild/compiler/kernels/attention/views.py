"""Tensors that hold another's numbers in another order: reshapes, transposes, slices and repetitions without a copy.

Each axis has factors, the outermost first. For example, an axis into which batch and heads were merged has two, each
with its own step, which a single stride could not express.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Factor:
    """A loop: its number of iterations and its step in elements. A step of 0 repeats the same numbers."""

    extent: int
    stride: int


Axis = tuple[Factor, ...]
"""The factors, the outermost first, all of extent 2 or more; an axis of one element has none."""


@dataclass(frozen=True)
class View:
    """The places of a tensor's elements in another, dense tensor, in elements from its first."""

    axes: tuple[Axis, ...]
    offset: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes."""
        return tuple(map(axis_extent, self.axes))

    def is_dense(self) -> bool:
        """Return whether the elements lie one after another, from the first on."""
        return self.offset == 0 and merge(sum(self.axes, ())) == merge(sum(dense(self.shape).axes, ()))

    def permute(self, order: Sequence[int]) -> View:
        """Return the view with its axes in another order."""
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def reshape(self, shape: Sequence[int]) -> View | None:
        """Return the view in another shape of as many elements; None if no factors can express it."""
        left = [factor for axis in self.axes for factor in axis]
        axes = []
        for extent in shape:
            taken = _take(left, extent)
            if taken is None:
                return None
            axes.append(taken)
        return replace(self, axes=tuple(axes))

    def slice(self, axis: int, begin: int, end: int, step: int = 1) -> View | None:
        """Return a slice along one axis; None if its factors do not allow it."""
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
        """Return the view repeated along new axes in front and along axes of extent 1."""
        axes = ((),) * (len(shape) - len(self.axes)) + self.axes
        return replace(
            self, axes=tuple(axis or _axis(Factor(extent, 0)) for axis, extent in zip(axes, shape, strict=True))
        )

    def repeat(self, axis: int, times: int, *, each: bool) -> View:
        """Return the view with an axis repeated: each element several times, or the whole axis again and again."""
        factors, again = self.axes[axis], _axis(Factor(times, 0))
        return self._with_axis(axis, (*factors, *again) if each else (*again, *factors), 0)

    def _with_axis(self, axis: int, factors: Axis, further: int) -> View:
        axes = (*self.axes[:axis], factors, *self.axes[axis + 1 :])
        return View(axes, self.offset + further)


def dense(shape: Sequence[int]) -> View:
    """Return a tensor as its own view."""
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
    """Split axes of one extent into factors of equal extents; None if that is impossible."""
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
    """Take the outermost factors of that extent from the list; None where they do not divide it."""
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
