"""The sizes of a model whose shapes vary: `sizes` and `pad` in models.yaml."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT
from tvmbuild.base.frozen_map import FrozenMap

Axis = int | str
"""The length of an axis, or the letter that stands for it."""
MAX_SIZES = 64
"""The largest number of sizes of one model, because each is compiled on its own."""
MAX_LETTERS = 4
"""The largest number of letters of one model, because a size's name has all of them."""
SIZES = "sizes"
"""The role of the file with the facts about a model's sizes that the simplify stage has found."""


@dataclass(frozen=True)
class Size:
    """One size of a model: a value for each letter."""

    values: FrozenMap[str, int]

    @property
    def name(self) -> str:
        """The name in files and messages, for example ``T16`` or ``H320-W640``."""
        return "-".join(f"{letter}{value}" for letter, value in self.values.items())

    def role(self, role: str) -> str:
        """Return the role of a file that belongs to this size, if it is not the largest."""
        return f"{role} {self.name}"


@dataclass(frozen=True)
class Range:
    """The values of a letter that a package takes: all from the first to the last, between its sizes in parts."""

    letter: str
    first: int
    last: int


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model, and the inputs whose shapes have letters."""

    inputs: FrozenMap[str, tuple[Axis, ...]]
    """The shape of each input with letters."""
    choices: tuple[Size, ...]
    """The sizes, the smallest first. The last one is the largest, which the model's own inputs have."""
    pad: FrozenMap[str, float] = FrozenMap()
    """Input → the value that fills it up to a size."""
    range: Range | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The range of the letter along which inputs are computed in parts."""

    @property
    def others(self) -> tuple[Size, ...]:
        """The sizes except the largest."""
        return self.choices[:-1]

    @property
    def trials(self) -> tuple[Size, ...]:
        """The sizes that are compared and timed, although no function is built for them.

        In a range, one is the smallest without a function, and one is the smallest beyond the largest function.
        """
        if self.range is None:
            return ()
        letter, largest = self.range.letter, self.choices[-1].values
        built = {each.values[letter] for each in self.choices}
        values = range(self.range.first, self.range.last + 1)
        beyond = max(built) + 1
        chosen = {next((value for value in values if value not in built), beyond), beyond}.intersection(values)
        return tuple(Size(FrozenMap({**largest, letter: value})) for value in sorted(chosen))

    def shape(self, name: str, size: Size) -> tuple[int, ...] | None:
        """Return the shape of an input at a size, or None if its shape has no letters."""
        return None if name not in self.inputs else fill_shape(self.inputs[name], size.values)


def fill_shape(shape: Sequence[Axis], values: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape with a value in place of each letter."""
    return tuple(values[axis] if isinstance(axis, str) else axis for axis in shape)


def sort_sizes(inputs: Mapping[str, Sequence[Axis]], choices: Sequence[Size]) -> tuple[Size, ...]:
    """Return the sizes in the order of the elements of all inputs, the smallest first."""

    def weigh(size: Size) -> tuple[int, tuple[int, ...]]:
        elements = sum(math.prod(fill_shape(shape, size.values)) for shape in inputs.values())
        return elements, tuple(size.values.values())

    return tuple(sorted(choices, key=weigh))
