"""Tensors that are another's numbers in another order: reshapes, transposes, slices and repetitions that move nothing.

Each axis has factors, the outermost first: an axis into which batch and heads were merged has two, and steps of its
own in each of them, which no single stride could say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Factor:
    """A loop: how often, and how many elements further each time. 0 where the same numbers come again."""

    extent: int
    stride: int


Axis = tuple[Factor, ...]
"""The outermost first, none of extent 1; an axis of one element has none."""


@dataclass(frozen=True)
class View:
    """Where in a dense tensor, in elements from its first, another one's elements lie."""

    axes: tuple[Axis, ...]
    offset: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents of the axes."""
        return tuple(map(axis_extent, self.axes))

    def is_dense(self) -> bool:
        """Say whether it holds its elements one after another, from the first on."""
        return self.offset == 0 and merge(sum(self.axes, ())) == merge(sum(dense(self.shape).axes, ()))

    def permute(self, order: Sequence[int]) -> View:
        """Return it with its axes in another order."""
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def reshape(self, shape: Sequence[int]) -> View | None:
        """Return it in another shape of as many elements; None where no factors say where they lie."""
        left = [factor for axis in self.axes for factor in axis]
        axes = []
        for extent in shape:
            taken = _take(left, extent)
            if taken is None:
                return None
            axes.append(taken)
        return replace(self, axes=tuple(axes))

    def slice(self, axis: int, begin: int, end: int, step: int = 1) -> View | None:
        """Return a part along one axis; None where its factors do not allow it."""
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
        """Return it repeated along new axes in front and axes of extent 1."""
        axes = ((),) * (len(shape) - len(self.axes)) + self.axes
        return replace(
            self, axes=tuple(axis or _axis(Factor(extent, 0)) for axis, extent in zip(axes, shape, strict=True))
        )

    def repeat(self, axis: int, times: int, *, each: bool) -> View:
        """Return it with an axis several times over: each element, or the whole axis again and again."""
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
    """Return how many elements an axis has."""
    return math.prod(factor.extent for factor in factors)


def merge(factors: Sequence[Factor]) -> Axis:
    """Return as few factors as say the same."""
    merged: list[Factor] = []
    for factor in factors:
        if merged and merged[-1].stride == factor.extent * factor.stride:
            factor = Factor(merged.pop().extent * factor.extent, factor.stride)  # noqa: PLW2901
        merged.append(factor)
    return tuple(merged)


def refine(axes: Sequence[Axis]) -> list[Axis] | None:
    """Return axes of one extent in factors whose extents are the same for all; None where they have none."""
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
