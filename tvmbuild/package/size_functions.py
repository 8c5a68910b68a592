"""The functions of a package whose shapes vary, one for each size, and the choice of one for given inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.size_specs import MAX_SIZES, Axis, Size, fill_shape
from tvmbuild.errors import TvmbuildError

MAIN = "mod.so"
"""The library of the largest size."""
_LIBRARY = re.compile(r"size-[A-Za-z0-9_-]{1,88}\.so")


def name_library(size: Size) -> str:
    """Return the name of a size's library in the package, unless it is the largest."""
    return f"size-{size.name}.so"


def is_library(name: str) -> bool:
    """Return whether a file's name is that of a size's library."""
    return _LIBRARY.fullmatch(name) is not None


@dataclass(frozen=True)
class SizeFunction:
    """The code for one size."""

    values: FrozenMap[str, int]
    """Letter → its value."""
    library: str
    """The name of the file with the code."""
    params: tuple[int, ...]
    """The places of its weights among the tensors of mod.params, sorted by name."""
    outputs: FrozenMap[str, tuple[int, ...]]
    """The shape of each output."""

    @property
    def size(self) -> Size:
        """The size."""
        return Size(self.values)


@dataclass(frozen=True)
class SizeFunctions:
    """The functions of all sizes, and the shapes of inputs and outputs in letters."""

    inputs: FrozenMap[str, tuple[Axis, ...]]
    """The shape of each input that varies."""
    outputs: FrozenMap[str, tuple[Axis, ...]]
    """The shape of each output. A letter stands for the axis that is cut after padding."""
    functions: tuple[SizeFunction, ...]
    """The functions, the smallest size first. The last one is that of the largest, in mod.so."""
    padded: tuple[str, ...] = ()
    """The letters along which inputs may be padded."""
    pad: FrozenMap[str, float] = field(default=FrozenMap())
    """Input → the value that fills it up. Other inputs are filled up with 0."""

    def choose(self, shapes: Mapping[str, Sequence[int]], model: str) -> tuple[SizeFunction, Size]:
        """Return the smallest function that takes inputs of these shapes, and the size that they have themselves.

        Raises TvmbuildError, which lists the sizes, if no function takes them.
        """
        values: dict[str, int] = {}
        for name in self.inputs:
            if name in shapes:
                self._read(name, shapes[name], values, model)
        size = Size(FrozenMap((letter, values[letter]) for letter in self.functions[-1].values))
        for function in self.functions:
            if all(self._takes(function, letter, value) for letter, value in size.values.items()):
                return function, size
        raise TvmbuildError(f"{model} takes no {_show(size)}", self.describe())

    def _read(self, name: str, shape: Sequence[int], values: dict[str, int], model: str) -> None:
        """Add the values of the letters in an input's shape."""
        wanted = self.inputs[name]
        shown = f"[{', '.join(map(str, wanted))}]"
        fits = len(shape) == len(wanted) and all(
            length == axis for length, axis in zip(shape, wanted, strict=True) if isinstance(axis, int)
        )
        if not fits:
            raise TvmbuildError(f"the input {name} of {model} is {shown}, got {list(shape)}", self.describe())
        for length, axis in zip(shape, wanted, strict=True):
            if isinstance(axis, str) and values.setdefault(axis, length) != length:
                raise TvmbuildError(
                    f"the inputs of {model} disagree about {axis}: {values[axis]}, and {length} in {name}",
                    f"{name} is {shown}",
                )

    def _takes(self, function: SizeFunction, letter: str, value: int) -> bool:
        own = function.values[letter]
        return value == own or (letter in self.padded and 0 < value < own)

    def describe(self) -> str:
        """Return the sizes in words."""
        listed = ", ".join(_show(each.size) for each in self.functions)
        smaller = f"; smaller {' and '.join(self.padded)} are padded" if self.padded else ""
        return f"its sizes are {listed}{smaller}"

    def shape(self, name: str, function: SizeFunction) -> tuple[int, ...] | None:
        """Return the shape of an input in a function, or None if it does not vary."""
        return None if name not in self.inputs else fill_shape(self.inputs[name], function.values)

    def to_json(self) -> dict[str, object]:
        """Return the value of `sizes` in mod.json."""
        return {
            "inputs": {name: list(shape) for name, shape in self.inputs.items()},
            "outputs": {name: list(shape) for name, shape in self.outputs.items()},
            "padded": list(self.padded),
            "pad": dict(self.pad),
            "functions": [
                {
                    "values": dict(each.values),
                    "library": each.library,
                    "params": list(each.params),
                    "outputs": {name: list(shape) for name, shape in each.outputs.items()},
                }
                for each in self.functions
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SizeFunctions:
        """Return the value of `to_json`. Raises KeyError, TypeError or ValueError if it is none."""
        functions = tuple(
            SizeFunction(
                FrozenMap(each["values"]), each["library"], tuple(each["params"]), _freeze_shapes(each["outputs"])
            )
            for each in value["functions"]
        )
        inputs, outputs = _freeze_shapes(value["inputs"]), _freeze_shapes(value["outputs"])
        found = cls(inputs, outputs, functions, tuple(value["padded"]), FrozenMap(value["pad"]))
        fault = found.find_fault()
        if fault is not None:
            raise ValueError(fault)
        return found

    def find_fault(self) -> str | None:
        """Return why these are no functions of a package, or None."""
        if not 0 < len(self.functions) <= MAX_SIZES or not self.inputs:
            return "sizes have no functions, or too many"
        letters = set(self.functions[-1].values)
        used = {axis for shape in self.inputs.values() for axis in shape if isinstance(axis, str)}
        cut_off = {axis for shape in self.outputs.values() for axis in shape if isinstance(axis, str)}
        if used != letters or not cut_off <= letters or not set(self.padded) <= letters:
            return "sizes have a letter without a value"
        libraries = [each.library for each in self.functions]
        if libraries[-1] != MAIN or len(set(libraries)) < len(libraries) or not all(map(is_library, libraries[:-1])):
            return "sizes have libraries with unexpected names"
        for each in self.functions:
            if set(each.values) != letters or each.outputs.keys() != self.outputs.keys():
                return f"sizes.functions of {each.library} have other letters or outputs"
            if not all(_holds(each.outputs[name], shape, each.values) for name, shape in self.outputs.items()):
                return f"sizes.functions of {each.library} have outputs that are shorter than their letters"
        return None


def _freeze_shapes(shapes: Mapping[str, Sequence[Any]]) -> FrozenMap[str, tuple[Any, ...]]:
    return FrozenMap((name, tuple(shape)) for name, shape in shapes.items())


def _holds(lengths: Sequence[int], shape: Sequence[Axis], values: Mapping[str, int]) -> bool:
    """Return whether an output of these lengths can be cut to its shape in letters."""
    pairs = zip(lengths, shape, strict=False)
    return len(lengths) == len(shape) and all(isinstance(axis, int) or values[axis] <= length for length, axis in pairs)


def _show(size: Size) -> str:
    return " ".join(f"{letter}={value}" for letter, value in size.values.items())
