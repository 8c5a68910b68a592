"""The place of the batch in a tensor, and the node that a rule looks at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx


class Dependent(Exception):  # noqa: N818 - a finding about the network, and no error of the program
    """The reason why rows influence each other in a node, or why this cannot be excluded."""


@dataclass(frozen=True)
class Rows:
    """The place of the batch in a tensor: an axis of ``outer`` * rows * ``inner`` elements."""

    axis: int
    outer: int = 1
    inner: int = 1

    @property
    def is_whole(self) -> bool:
        """Return whether the axis is only the batch."""
        return self.outer == self.inner == 1

    def move(self, axis: int) -> Rows:
        """Return the place with the rows on another axis."""
        return Rows(axis, self.outer, self.inner)


@dataclass(frozen=True)
class Node:
    """A node of a graph of fixed shapes, and the facts about its inputs and outputs."""

    proto: onnx.NodeProto
    rows: int
    """The length of the batch."""
    places: Mapping[str, Rows]
    """The place of the batch in each tensor that depends on it. Other tensors are the same for all batches."""
    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, np.ndarray]
    opset: int

    @property
    def inputs(self) -> Sequence[str]:
        """The names of the inputs; an empty one is left out."""
        return list(self.proto.input)

    def has(self, index: int) -> bool:
        """Return whether the node has this input."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def place(self, index: int) -> Rows | None:
        """Return the place of the batch in an input, or None if the input is the same for all batches."""
        return self.places.get(self.inputs[index]) if self.has(index) else None

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        return self._shape(self.inputs[index])

    def output_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an output."""
        return self._shape(self.proto.output[index])

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self.shapes:
            raise Dependent(f"the shape of {name} is not known before the run")
        return self.shapes[name]

    def constant(self, index: int) -> np.ndarray | None:
        """Return the value of an input. None if it is left out. Raises Dependent if it is computed."""
        if not self.has(index):
            return None
        if self.inputs[index] not in self.constants:
            raise Dependent(f"its input {self.inputs[index]} is not constant")
        return self.constants[self.inputs[index]]

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute."""
        for each in self.proto.attribute:
            if each.name == name:
                return onnx.helper.get_attribute_value(each)
        return default

    def numbers(self, name: str, index: int) -> list[int] | None:
        """Return a list of integers that is an attribute in older opsets and an input in newer ones."""
        given = self.attribute(name)
        if given is not None:
            return [int(each) for each in (given if isinstance(given, (list, tuple)) else [given])]
        value = self.constant(index)
        return None if value is None else [int(each) for each in value.reshape(-1)]

    def require_shared(self, *indices: int) -> None:
        """Raise Dependent if one of these inputs depends on the batch."""
        for index in indices:
            if self.place(index) is not None:
                raise Dependent(f"its input {self.inputs[index]} differs from row to row")

    def require_one_value(self, index: int, place: Rows) -> None:
        """Raise Dependent unless an input that no row changes has one value for all rows at this place."""
        shape = self.shape(index)
        length = shape[place.axis]
        if length == 1:
            return
        value = self.constants.get(self.inputs[index])
        if value is None or length != place.outer * self.rows * place.inner:
            raise Dependent(f"its input {self.inputs[index]} is as long as the batch, and is not constant")
        parts = split_axis(value, place, self.rows)
        if not (parts == parts.take([0], place.axis + 1)).all():
            raise Dependent(f"its constant {self.inputs[index]} has a value of its own for each row")


def split_axis(value: np.ndarray, place: Rows, rows: int) -> np.ndarray:
    """Return an array whose axis with the batch is three: outer, rows and inner."""
    shape = value.shape
    return value.reshape(*shape[: place.axis], place.outer, rows, place.inner, *shape[place.axis + 1 :])


def count(shape: Sequence[int]) -> int:
    """Return the number of elements."""
    return math.prod(shape)
