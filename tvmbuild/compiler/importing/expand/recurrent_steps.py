"""The nodes of one step of an LSTM, a GRU and an RNN, in one direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from tvmbuild.compiler.importing.expand.compose import Composer

State: TypeAlias = list[str]
"""The names of a step's state: its output and, for an LSTM, its cell."""
_ALPHA = {"LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "HardSigmoid": 0.2, "Elu": 1.0}
_BETA = {"HardSigmoid": 0.5}
_SCALED = {"ScaledTanh": "Tanh", "Affine": "Identity"}


@dataclass(frozen=True)
class Kind:
    """A kind of recurrence: LSTM, GRU or RNN."""

    gates: int
    activations: tuple[str, ...]
    states: int
    step: Callable[[Direction, str, State], State]
    is_quantized: bool = False
    """True if the weights are integers with a row for each input, and the inputs 8 to 11 are scales and zero points."""


@dataclass(frozen=True)
class Layer:
    """A recurrent node, its kind and its sizes."""

    node: onnx.NodeProto
    kind: Kind
    composer: Composer
    attributes: dict[str, Any]
    steps: int
    batch: int
    hidden: int
    directions: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the data."""
        kind = self.composer.scope.element_type(self.input(0)) or onnx.TensorProto.FLOAT
        dtype: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(kind)
        return dtype

    def input(self, index: int) -> str:
        """Return the name of an input, or an empty string if the input is left out."""
        return str(self.node.input[index]) if index < len(self.node.input) else ""

    def of_direction(self, index: int, direction: int) -> str:
        """Return an input's part for one direction, without the axis of directions.

        The result is an empty string if the input is left out.
        """
        name = self.input(index)
        if not name:
            return ""
        parts = self.composer.split(name, 0, [1] * self.directions)
        return self.composer.squeeze(parts[direction], [0])


@dataclass(frozen=True)
class Weights:
    """A matrix of weights with gates * hidden columns, in floats or integers."""

    name: str
    scale: str = ""
    """The name of the scale of integer weights; empty if the weights are floats."""
    zero_point: str = ""

    def multiply(self, composer: Composer, data: str) -> str:
        """Return the data times the matrix; for integer weights, the data are quantised by their own range."""
        if not self.scale:
            return composer.add("MatMul", data, self.name)
        inputs = (data, self.name, self.scale, self.zero_point)
        return composer.add("DynamicQuantizeMatMul", *inputs, domain="com.microsoft")


@dataclass(frozen=True)
class Direction:
    """One direction of a layer, ready for its steps."""

    layer: Layer
    index: int
    recurrence: Weights
    """The weights of the state, with one row for each hidden unit."""
    recurrence_bias: str
    peepholes: tuple[str, ...]

    @property
    def composer(self) -> Composer:
        """The composer that writes the layer's nodes."""
        return self.layer.composer

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        return self.composer.add(operator, *inputs, **attributes)

    def activate(self, which: int, value: str, *, clips: bool = True) -> str:
        """Apply the direction's activation number ``which``; clip the value first if the node has the attribute `clip`.

        ONNX Runtime does not clip the cell of an LSTM (``clips`` is False), whatever the specification says.
        """
        kinds = len(self.layer.kind.activations)
        at = self.index * kinds + which
        given = self.layer.attributes.get("activations", self.layer.kind.activations * self.layer.directions)
        name = _find_activation(str(given[at]))
        clip = self.layer.attributes.get("clip")
        if clip and clips:
            value = self.composer.clip(value, np.array(clip, dtype=self.layer.dtype))
        alpha, beta = (self._parameter(each, given, at) for each in ("alpha", "beta"))
        return self._apply(name, value, alpha, beta)

    def _parameter(self, which: str, given: Sequence[str], at: int) -> float | None:
        values = list(self.layer.attributes.get(f"activation_{which}", ()))
        table = _ALPHA if which == "alpha" else _BETA
        # The attribute lists values only for the activations that have the parameter.
        takers = [i for i, name in enumerate(given) if name in table or name in _SCALED]
        if at in takers and takers.index(at) < len(values):
            return float(values[takers.index(at)])
        return table.get(str(given[at]))

    def _apply(self, name: str, value: str, alpha: float | None, beta: float | None) -> str:
        if name == "ScaledTanh":
            scaled = self.add("Mul", value, self.number(1.0 if beta is None else beta))
            return self.add("Mul", self.add("Tanh", scaled), self.number(1.0 if alpha is None else alpha))
        if name == "Affine":
            scaled = self.add("Mul", value, self.number(1.0 if alpha is None else alpha))
            return self.add("Add", scaled, self.number(0.0 if beta is None else beta))
        attributes = {"alpha": alpha} if alpha is not None else {}
        return self.add(name, value, **attributes, **({"beta": beta} if beta is not None else {}))

    def number(self, value: float) -> str:
        """Add a scalar constant of the data's type."""
        return self.composer.constant(np.array(value, dtype=self.layer.dtype))

    def multiply(self, state: str) -> str:
        """Return the state times its weights, plus their bias."""
        return self.multiply_add(state, self.recurrence, self.recurrence_bias)

    def multiply_add(self, state: str, weights: Weights, bias: str) -> str:
        """Return the state times ``weights``, plus ``bias`` if it is not empty."""
        product = weights.multiply(self.composer, state)
        return self.add("Add", product, bias) if bias else product

    @cached_property
    def reset_weights(self) -> list[Weights]:
        """A GRU's weights of the state: of both gates, and of the candidate, which sees the state after a gate."""
        return [Weights(name) for name in self.composer.split(self.recurrence.name, 1, self._reset_sizes)]

    @cached_property
    def reset_biases(self) -> list[str]:
        """A GRU's biases of the state: of both gates, and of the candidate."""
        if not self.recurrence_bias:
            return ["", ""]
        return self.composer.split(self.recurrence_bias, 0, self._reset_sizes)

    @property
    def _reset_sizes(self) -> list[int]:
        return [2 * self.layer.hidden, self.layer.hidden]

    def split(self, value: str, parts: int) -> list[str]:
        """Cut a value that is computed for all gates at once into one value for each gate."""
        return self.composer.split(value, 1, [self.layer.hidden] * parts)

    def peep(self, value: str, index: int, cell: str) -> str:
        """Add the product of the gate's peephole weights and the cell, if the layer has peepholes."""
        if not self.peepholes:
            return value
        return self.add("Add", value, self.add("Mul", self.peepholes[index], cell))


def lstm_step(cell: Direction, projected: str, state: State) -> State:
    """Return the state after one step of an LSTM; the gates are in ONNX's order: i, o, f, c."""
    before, memory = state
    gates = cell.add("Add", projected, cell.multiply(before))
    entering, leaving, forgetting, candidate = cell.split(gates, 4)
    enter = cell.activate(0, cell.peep(entering, 0, memory))
    if cell.layer.attributes.get("input_forget", 0):
        forget = cell.add("Sub", cell.number(1.0), enter)
    else:
        forget = cell.activate(0, cell.peep(forgetting, 2, memory))
    kept, added = cell.add("Mul", forget, memory), cell.add("Mul", enter, cell.activate(1, candidate))
    after = cell.add("Add", kept, added)
    leave = cell.activate(0, cell.peep(leaving, 1, after))
    return [cell.add("Mul", leave, cell.activate(2, after, clips=False)), after]


def gru_step(cell: Direction, projected: str, state: State) -> State:
    """Return the state after one step of a GRU; the gates are in ONNX's order: z, r, h."""
    (before,) = state
    update, reset, candidate = cell.split(projected, 3)
    if cell.layer.attributes.get("linear_before_reset", 0):
        of_update, of_reset, of_candidate = cell.split(cell.multiply(before), 3)
        reset = cell.activate(0, cell.add("Add", reset, of_reset))
        seen = cell.add("Mul", reset, of_candidate)
    else:
        both, own = cell.reset_weights
        both_bias, own_bias = cell.reset_biases
        of_update, of_reset = cell.split(cell.multiply_add(before, both, both_bias), 2)
        reset = cell.activate(0, cell.add("Add", reset, of_reset))
        seen = cell.multiply_add(cell.add("Mul", reset, before), own, own_bias)
    update = cell.activate(0, cell.add("Add", update, of_update))
    hidden = cell.activate(1, cell.add("Add", candidate, seen))
    old, new = cell.add("Mul", update, before), cell.add("Mul", cell.add("Sub", cell.number(1.0), update), hidden)
    return [cell.add("Add", new, old)]


def rnn_step(cell: Direction, projected: str, state: State) -> State:
    """Return the state after one step of an RNN, which has one gate."""
    return [cell.activate(0, cell.add("Add", projected, cell.multiply(state[0])))]


def _find_activation(name: str) -> str:
    known = {each.lower(): each for each in (*_ALPHA, *_SCALED, "Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")}
    return known.get(name.lower(), name)
