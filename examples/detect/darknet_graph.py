"""An ONNX graph that grows by darknet's layers."""  # noqa: INP001

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from darknet_files import Section, Weights
from onnx import helper, numpy_helper


@dataclass(frozen=True)
class Value:
    """The output of a layer: a tensor [1, channels, height, width]."""

    name: str
    channels: int
    height: int
    width: int


@dataclass
class Network:
    """An ONNX graph under construction; ``outputs`` has one value for each layer, as routes count them."""

    picture: Value
    weights: Weights
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    boxes: list[str] = field(default_factory=list)
    rows: int = 0
    classes: int = 0

    @property
    def last(self) -> Value:
        """The input of the next layer."""
        return self.outputs[-1] if self.outputs else self.picture

    def add(self, kind: str, inputs: list[str], **attributes: object) -> str:
        """Add a node and return its output's name."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def constant(self, values: object, dtype: type = np.float32) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype, "C"), name))
        return name

    def find(self, section: Section, key: str) -> list[Value]:
        """Return the earlier layers that an option names; a number below zero counts from here."""
        here = len(self.outputs)
        indices = [index + here if index < 0 else index for index in section.numbers(key)]
        if not all(0 <= index < here for index in indices):
            raise ValueError(f"{section.place}: a {section.kind} leads to a layer that is not before it")
        values = [self.outputs[index] for index in indices]
        if len({(value.height, value.width) for value in values}) != 1:
            sizes = ", ".join(f"{value.height}x{value.width}" for value in values)
            raise ValueError(f"{section.place}: a {section.kind} joins layers of several sizes: {sizes}")
        return values

    def activate(self, section: Section, name: str, default: str) -> str:
        """Add the activation that a section names."""
        activation = section.text("activation", default)
        if activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ValueError(f"{section.place}: activation={activation} is not known; known are {known}")
        return ACTIVATIONS[activation](self, name)

    def columns(self, value: str, start: int, stop: int) -> str:
        """Return the columns ``start`` to ``stop`` of the last of three dimensions."""
        return self.add("Slice", [value, *(self.constant([each], np.int64) for each in (start, stop, 2))])


ACTIVATIONS: dict[str, Callable[[Network, str], str]] = {
    "leaky": lambda network, x: network.add("LeakyRelu", [x], alpha=0.1),
    "linear": lambda _, x: x,
    "relu": lambda network, x: network.add("Relu", [x]),
    "logistic": lambda network, x: network.add("Sigmoid", [x]),
    "swish": lambda network, x: network.add("Mul", [x, network.add("Sigmoid", [x])]),
    "mish": lambda network, x: network.add("Mul", [x, network.add("Tanh", [network.add("Softplus", [x])])]),
}
"""The function that adds each activation."""
