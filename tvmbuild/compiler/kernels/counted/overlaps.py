"""The comparison of two boxes by suppression: whether they share more than the allowed part of their union."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32
from tvmbuild.compiler.kernels.vectors import local

SIDES = 4
"""The numbers of a box."""


class Overlaps:
    """Two boxes of one thread.

    Values are kept in registers: TVM repeats a bound expression at each use, and then takes minutes to simplify it.
    """

    def __init__(self) -> None:
        self.corners, self.sizes = local(2 * SIDES), local(SIDES + 2)

    def read(self, values: Sequence[Any], place: int, *, center: bool) -> list[Any]:
        """Keep the smaller and the larger corner of box ``place``, 0 or 1, and return them."""
        into = place * SIDES
        for axis in range(2):
            one, other = values[axis], values[axis + 2]
            half = other / float32(2)
            low, high = (one - half, one + half) if center else (tirx.Min(one, other), tirx.Max(one, other))
            self.keep([low], into + axis)
            self.keep([high], into + axis + 2)
        return [self.corners[into + side] for side in range(SIDES)]

    def keep(self, values: Sequence[Any], begin: int) -> None:
        """Keep numbers of the boxes from the place ``begin`` on."""
        for place, value in enumerate(values, begin):
            T.buffer_store(self.corners, value, [place])

    def are_beyond(self, threshold: Any) -> Any:
        """Return whether the two boxes share more than this part of their union."""
        a, b = ([self.corners[place] for place in range(start, start + SIDES)] for start in (0, SIDES))
        T.buffer_store(self.sizes, tirx.Min(a[2], b[2]) - tirx.Max(a[0], b[0]), [0])
        T.buffer_store(self.sizes, tirx.Min(a[3], b[3]) - tirx.Max(a[1], b[1]), [1])
        T.buffer_store(self.sizes, (a[2] - a[0]) * (a[3] - a[1]), [2])
        T.buffer_store(self.sizes, (b[2] - b[0]) * (b[3] - b[1]), [3])
        across, down, first, second = (self.sizes[place] for place in range(SIDES))
        T.buffer_store(self.sizes, across * down, [4])
        shared = self.sizes[4]
        T.buffer_store(self.sizes, first + second - shared, [5])
        union, zero = self.sizes[5], float32(0)
        there = tirx.all(across > zero, down > zero, shared > zero, first > zero, second > zero, union > zero)
        return tirx.all(there, shared / union > threshold)
