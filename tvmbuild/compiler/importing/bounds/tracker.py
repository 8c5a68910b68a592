"""The values of a graph whose lengths depend on data: padded shapes, real lengths, and small tensors of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.bounds.lengths import Length, Number, name_value
from tvmbuild.compiler.importing.bounds.writer import HINT, Writer
from tvmbuild.compiler.importing.refusals import NodeError, refuse

MOST_NUMBERS = 64
"""The largest number of elements of a tensor whose elements are followed one by one."""
_OPERATORS: Mapping[str, str] = {
    "add": "Add",
    "multiply": "Mul",
    "divide": "Div",
    "least": "Min",
    "most": "Max",
}
Numbers: TypeAlias = "np.ndarray[Any, Any]"
"""An array of `Number`, the elements of a small tensor."""


class Tracker(Writer):
    """The new graph, and the known lengths of its values."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """Begin with the types of the values of ``model``."""
        super().__init__(model)
        self.names: dict[str, str] = {}
        """The new name of each rewritten value of the old graph."""
        self.refused: dict[str, NodeError] = {}
        self.walk: Callable[[onnx.NodeProto], None]
        """The function that writes a node of a branch; the driver sets it."""
        self.whole: Callable[[onnx.NodeProto], list[str]]
        """The function that writes a node of values of fixed shapes, and returns its results; the driver sets it."""
        self.true_counts: dict[str, Number] = {}
        """The number of true elements of each tensor of booleans that a NonZero reads, by its old name."""
        self._lengths: dict[str, dict[int, Number]] = {}
        self._numbers: dict[str, Numbers] = {}

    def said(self, name: str) -> str:
        """Return the name that a value has in the old graph, for messages."""
        return next((old for old, new in self.names.items() if new == name), name)

    def lengths(self, name: str) -> dict[int, Number]:
        """Return the lengths of the axes that are padded, by axis."""
        return dict(self._lengths.get(name, {}))

    def is_counted(self, name: str) -> bool:
        """Return whether an axis of the value is padded."""
        return name in self._lengths

    def true_shape(self, name: str) -> list[Number]:
        """Return the real shape of a value."""
        lengths = self._lengths.get(name, {})
        return [lengths.get(axis, size) for axis, size in enumerate(self.shape(name))]

    def give(self, name: str, lengths: Mapping[int, Number]) -> str:
        """Return a name of the value with these lengths of its padded axes."""
        shape = self.shape(name)
        wanted = {axis: length for axis, length in lengths.items() if length != shape[axis]}
        found = self._lengths.get(name)
        if found == wanted or (found is None and not wanted):
            return name
        key = ("alias", self.value(name), tuple(sorted(wanted.items())))
        if key not in self._made:
            alias = self._made[key] = self.scope.fresh(HINT)
            self.origins[alias] = self.value(name)
            self.scope.set_type(alias, self.kind(name), shape)
            if wanted:
                self._lengths[alias] = wanted
        return str(self._made[key])

    # Small tensors of whole numbers, whose elements are followed one by one.

    def numbers(self, name: str) -> Numbers | None:
        """Return the elements of a small tensor of whole numbers, or None if they are not followed."""
        if name in self._numbers:
            return self._numbers[name]
        array = None if self.is_counted(name) else self.constant_of(name)
        if array is None or array.dtype.kind not in "iub" or array.size > MOST_NUMBERS:
            return None
        return array.astype(object) if array.dtype.kind != "b" else array.astype(np.int64).astype(object)

    def elements(self, name: str) -> Numbers:
        """Return the elements of a small tensor of whole numbers; an unknown element is a new symbol."""
        found = self.numbers(name)
        if found is not None:
            return found
        shape = self.shape(name)
        count = int(np.prod(shape, dtype=np.int64))
        if count > MOST_NUMBERS or self.is_counted(name):
            raise LookupError(name)
        flat = self.emit("Reshape", self.emit("Cast", name, to=TensorProto.INT64), self.integers([count]))
        parts = [self.emit("Gather", flat, self.constant(np.array(place)), axis=0) for place in range(count)]
        elements = np.empty(count, dtype=object)
        elements[:] = [name_value(part) for part in parts]
        return elements.reshape(shape)

    def set_numbers(self, numbers: Numbers, kind: int) -> str:
        """Return the name of a small tensor with these elements, which is written only if a node reads it."""
        if not any(isinstance(each, Length) for each in numbers.flat):
            return self.constant(numbers.astype(helper.tensor_dtype_to_np_dtype(kind)))
        key = ("numbers", tuple(numbers.flat), numbers.shape, kind)
        if key not in self._made:
            name = self.scope.fresh(HINT)
            self.scope.set_type(name, kind, numbers.shape)
            self._numbers[name] = numbers
            self._made[key] = name
        return str(self._made[key])

    def value(self, name: str) -> str:
        """Return the name of a value that a node can read; a tensor of numbers is written now."""
        numbers = self._numbers.get(name)
        if numbers is None:
            return super().value(name)
        parts = [self.emit("Reshape", self.scalar(each), self.integers([1])) for each in numbers.flat]
        joined = parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)
        shaped = (
            joined if numbers.shape == (len(parts),) else self.emit("Reshape", joined, self.integers(numbers.shape))
        )
        kind = self.kind(name)
        return shaped if kind == TensorProto.INT64 else self.emit("Cast", shaped, to=kind)

    def scalar(self, number: Number) -> str:
        """Return the name of an int64 scalar with this number."""
        if isinstance(number, int):
            return self.constant(np.array(number, np.int64))
        if number.operator == "value":
            return number.name
        if number in self._made:
            return str(self._made[number])
        first, *others = (self.scalar(each) for each in number.arguments)
        if number.operator in _OPERATORS:
            for other in others:
                first = self.emit(_OPERATORS[number.operator], first, other)
        elif number.operator == "choose":
            first = self.emit("Where", self.emit("Cast", first, to=TensorProto.BOOL), *others)
        else:
            compared = self.emit("Less" if number.operator == "is_less" else "Equal", first, *others)
            first = self.emit("Cast", compared, to=TensorProto.INT64)
        self._made[number] = first
        return first

    # The real elements of padded values.

    def live(self, length: Number, size: int) -> str:
        """Return a vector of ``size`` booleans; the first ``length`` are true."""
        places = self.integers(range(size))
        if isinstance(length, int):
            return self.constant(np.arange(size) < length)
        return self.emit("Less", places, self.scalar(length))

    def live_all(self, name: str) -> str | None:
        """Return which elements of a value are real, in a shape that broadcasts to its own; None if all of them are."""
        shape, result = self.shape(name), None
        for axis, length in sorted(self.lengths(name).items()):
            form = [size if place == axis else 1 for place, size in enumerate(shape)]
            part = self.reshape(self.live(length, shape[axis]), form)
            result = part if result is None else self.emit("And", result, part)
        return result

    def mask(self, name: str, fill: float, axes: Sequence[int] | None = None) -> str:
        """Return the value with ``fill`` in the places of elements that are not real, along all or some axes."""
        shape, result = self.shape(name), name
        for axis, length in sorted(self.lengths(name).items()):
            if axes is not None and axis not in axes:
                continue
            form = [size if place == axis else 1 for place, size in enumerate(shape)]
            live = self.reshape(self.live(length, shape[axis]), form)
            result = self._where(live, result, fill)
        return result

    def _where(self, live: str, name: str, fill: float) -> str:
        if self.kind(name) != TensorProto.BOOL:
            return self.emit("Where", live, name, self.number_like(name, fill))
        return self.emit("Or", name, self.emit("Not", live)) if fill else self.emit("And", name, live)


Rule: TypeAlias = Callable[[onnx.NodeProto, Tracker], Sequence[str]]
"""A rule, which writes a node with fixed shapes and returns the names of its results.

The names of the node's inputs are already those of the new graph."""


def attribute_of(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Return an attribute of a node, or its default."""
    return next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)


def read_axes(node: onnx.NodeProto, tracker: Tracker, name: str) -> list[int]:
    """Return the axes that an input lists; raise an error if they depend on data."""
    axes = list(tracker.elements(name).reshape(-1))
    if any(isinstance(axis, Length) for axis in axes):
        raise cannot_follow(node, "its axes depend on data")
    return [int(axis) for axis in axes]


def cannot_follow(node: onnx.NodeProto, what: str) -> NodeError:
    """Return the error of a node whose lengths cannot be followed."""
    return refuse(
        node,
        f"{what}, and a package has fixed shapes",
        "end the model before it and do the rest in the program, or replace it by a mask (Where, Mul)",
    )
