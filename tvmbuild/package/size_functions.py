"""The functions of a package whose shapes vary, one for each size, and the choice of one for given inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.size_specs import MAX_SIZES, Axis, Range, Size, fill_shape
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.operator_info import OperatorInfo, read_operators
from tvmbuild.package.parts import split

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
    cost: int = 0
    """The expected time of a call in ns, used to choose the parts of a batch. 0 without a range."""
    operators: tuple[OperatorInfo, ...] | None = None
    """The functions that its ``main`` calls. None for the largest size, which has the package's, and if unknown."""

    @property
    def size(self) -> Size:
        """The size."""
        return Size(self.values)


@dataclass(frozen=True)
class Part:
    """One call of a function: for the rows of a range from ``start`` on, or for all inputs."""

    function: SizeFunction
    values: FrozenMap[str, int]
    """The values of the letters in this part, before it is padded to those of the function."""
    start: int = 0

    @cached_property
    def is_padded(self) -> bool:
        """Return whether the part is smaller than its function."""
        return self.values != self.function.values


@dataclass(frozen=True)
class Calls:
    """The calls for inputs of a size."""

    size: Size
    """The size of the inputs themselves."""
    parts: tuple[Part, ...]

    def describe(self) -> str:
        """Return the size in words, and the function or the number of parts that compute it."""
        if len(self.parts) > 1:
            return f"{show(self.size)} in {len(self.parts)} parts"
        built = self.parts[0].function.size
        return show(self.size) if built == self.size else f"{show(self.size)} padded to {show(built)}"


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
    range: Range | None = None
    """The range of the letter along which inputs may be computed in parts."""

    def plan(self, shapes: Mapping[str, Sequence[int]], model: str) -> Calls:
        """Return the calls for inputs of these shapes: one of the smallest function that takes them, or parts of them.

        Raises TvmbuildError, which lists the sizes, if no function takes them.
        """
        values: dict[str, int] = {}
        for name in self.inputs:
            if name in shapes:
                self._read(name, shapes[name], values, model)
        return self.plan_size(values, model)

    def plan_size(self, values: Mapping[str, int], model: str) -> Calls:
        """Return the calls for inputs of a size, which has a value for each letter.

        Raises TvmbuildError, which lists the sizes, if a letter is missing or unknown, or if no function takes them.
        """
        letters = self.functions[-1].values
        if values.keys() != letters.keys():
            wrong = " ".join(f"{letter}={value}" for letter, value in values.items())
            raise TvmbuildError(f"{model} takes no {wrong}: a size has {' and '.join(letters)}", self.describe())
        size = Size(FrozenMap((letter, values[letter]) for letter in letters))
        free = () if self.range is None else (self.range.letter,)
        for function in self.functions:
            if all(each in free or self._takes(function, each, value) for each, value in size.values.items()):
                if self.range is None:
                    return Calls(size, (Part(function, size.values),))
                if self.range.first <= size.values[self.range.letter] <= self.range.last:
                    return Calls(size, self._split(function, self.range.letter, size))
        raise TvmbuildError(f"{model} takes no {show(size)}", self.describe())

    def _split(self, like: SizeFunction, letter: str, size: Size) -> tuple[Part, ...]:
        """Return the calls for the rows of a range, of functions whose other letters have the values of one function.

        The others' values are in all functions together with each value of the range.
        """
        others = [each for each in size.values if each != letter]
        fitting = {
            each.values[letter]: each
            for each in self.functions
            if all(each.values[other] == like.values[other] for other in others)
        }
        lengths = split(size.values[letter], tuple((value, each.cost) for value, each in sorted(fitting.items())))
        parts, start = list[Part](), 0
        for length in lengths:
            count = min(length, size.values[letter] - start)
            parts.append(Part(fitting[length], FrozenMap({**size.values, letter: count}), start))
            start += count
        return tuple(parts)

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
        listed = ", ".join(show(each.size) for each in self.functions)
        whole = self.range
        letters = [each for each in self.padded if whole is None or each != whole.letter]
        smaller = f"; smaller {' and '.join(letters)} are padded" if letters else ""
        between = f"; {whole.letter} from {whole.first} to {whole.last} is computed in parts of them" if whole else ""
        return f"its sizes are {listed}{smaller}{between}"

    def shape(self, name: str, function: SizeFunction) -> tuple[int, ...] | None:
        """Return the shape of an input in a function, or None if it does not vary."""
        return None if name not in self.inputs else fill_shape(self.inputs[name], function.values)

    def shape_outputs(self, calls: Calls) -> dict[str, tuple[int, ...]]:
        """Return the shape of each output for inputs of a size, after what padding added is cut."""
        function = calls.parts[0].function
        if calls.size.values == function.values:
            return dict(function.outputs)
        return {name: self.cut_shape(name, function, calls.size.values) for name in self.outputs}

    def cut_shape(self, name: str, function: SizeFunction, values: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of a function's output, with these values of the letters."""
        axes = zip(self.outputs[name], function.outputs[name], strict=True)
        return tuple(values[axis] if isinstance(axis, str) else length for axis, length in axes)

    def to_json(self) -> dict[str, object]:
        """Return the value of `sizes` in mod.json."""
        whole = self.range
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
                    **({"cost": each.cost} if whole else {}),
                    **({} if each.operators is None else {"operators": [asdict(one) for one in each.operators]}),
                }
                for each in self.functions
            ],
            **({"range": {"letter": whole.letter, "first": whole.first, "last": whole.last}} if whole else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SizeFunctions:
        """Return the value of `to_json`. Raises KeyError, TypeError or ValueError if it is none."""
        functions = tuple(
            SizeFunction(
                FrozenMap(each["values"]),
                each["library"],
                tuple(each["params"]),
                _freeze_shapes(each["outputs"]),
                each.get("cost", 0),
                read_operators(each.get("operators")),
            )
            for each in value["functions"]
        )
        inputs, outputs = _freeze_shapes(value["inputs"]), _freeze_shapes(value["outputs"])
        whole = Range(**value["range"]) if value.get("range") else None
        found = cls(inputs, outputs, functions, tuple(value["padded"]), FrozenMap(value["pad"]), whole)
        fault = found.find_fault()
        if fault is not None:
            raise ValueError(fault)
        return found

    def find_fault(self) -> str | None:
        """Return why these are not the functions of a package, or None if they are."""
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
        return None if self.range is None else self._find_fault_of_range(self.range)

    def _find_fault_of_range(self, whole: Range) -> str | None:
        """Return why these functions cannot compute the values of the range in parts, or None."""
        letter = whole.letter
        if letter not in self.functions[-1].values or not 0 < whole.first <= whole.last:
            return "sizes.range has no letter of the sizes, or no values"
        combined = {tuple(v for k, v in each.values.items() if k != letter) for each in self.functions}
        faults = {
            "has a letter that is twice in a shape": any(
                list(shape).count(letter) > 1 for shape in [*self.inputs.values(), *self.outputs.values()]
            ),
            "has a letter that an output lacks": any(letter not in shape for shape in self.outputs.values()),
            "has functions without a cost": any(each.cost <= 0 for each in self.functions),
            "has a letter that is not padded": letter not in self.padded,
            "has functions that are not there for all other letters": len(combined)
            * len({each.values[letter] for each in self.functions})
            != len(self.functions),
        }
        return next((f"sizes.range {fault}" for fault, is_found in faults.items() if is_found), None)


def _freeze_shapes(shapes: Mapping[str, Sequence[Any]]) -> FrozenMap[str, tuple[Any, ...]]:
    return FrozenMap((name, tuple(shape)) for name, shape in shapes.items())


def _holds(lengths: Sequence[int], shape: Sequence[Axis], values: Mapping[str, int]) -> bool:
    """Return whether an output of these lengths can be cut to its shape in letters."""
    pairs = zip(lengths, shape, strict=False)
    return len(lengths) == len(shape) and all(isinstance(axis, int) or values[axis] <= length for length, axis in pairs)


def show(size: Size) -> str:
    """Return a size for messages, for example ``H=320 W=640``."""
    return " ".join(f"{letter}={value}" for letter, value in size.values.items())
