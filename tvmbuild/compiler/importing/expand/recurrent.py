"""Unrolling of LSTM, GRU and RNN: one product for the inputs of all steps, then one for the state of each step."""

from __future__ import annotations

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.recurrent_steps import (
    Direction,
    Kind,
    Layer,
    State,
    Weights,
    gru_step,
    lstm_step,
    rnn_step,
)
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of


def unroll_lstm(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the nodes of all steps of an LSTM, or None if a length is unknown."""
    return _unroll(node, scope, Kind(4, ("Sigmoid", "Tanh", "Tanh"), 2, lstm_step))


def unroll_dynamic_lstm(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the nodes of all steps of Microsoft's DynamicQuantizeLSTM, or None if a length is unknown."""
    return _unroll(node, scope, Kind(4, ("Sigmoid", "Tanh", "Tanh"), 2, lstm_step, is_quantized=True))


def unroll_gru(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the nodes of all steps of a GRU, or None if a length is unknown."""
    return _unroll(node, scope, Kind(3, ("Sigmoid", "Tanh"), 1, gru_step))


def unroll_rnn(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the nodes of all steps of an RNN, or None if a length is unknown."""
    return _unroll(node, scope, Kind(1, ("Tanh",), 1, rnn_step))


def _unroll(node: onnx.NodeProto, scope: Scope, kind: Kind) -> Nodes | None:
    layer = _describe(node, scope, kind)
    if layer is None:
        return None
    composer, batch_first = layer.composer, bool(layer.attributes.get("layout", 0))
    data = composer.add("Transpose", layer.input(0), perm=[1, 0, 2]) if batch_first else layer.input(0)
    outputs: list[list[str]] = []
    last: list[State] = []
    for number in range(layer.directions):
        sequence, state = _run_direction(layer, number, data, batch_first)
        outputs.append(sequence)
        last.append(state)
    names = [*node.output, "", "", ""]
    if names[0]:
        steps = [composer.stack(list(each), 0) for each in zip(*outputs, strict=True)]
        whole = composer.stack(steps, 0)
        composer.name(composer.add("Transpose", whole, perm=[2, 0, 1, 3]) if batch_first else whole, names[0])
    for index in range(kind.states):
        if names[1 + index]:
            whole = composer.stack([state[index] for state in last], 1 if batch_first else 0)
            composer.name(whole, names[1 + index])
    return composer.nodes


def _describe(node: onnx.NodeProto, scope: Scope, kind: Kind) -> Layer | None:
    data, recurrence = scope.shape(node.input[0]), scope.shape(node.input[2])
    if data is None or recurrence is None:
        return None
    attributes = attributes_of(node)
    steps, batch = (data[1], data[0]) if attributes.get("layout", 0) else (data[0], data[1])
    if steps == 0:
        return None
    composer = Composer(scope, node.name or node.op_type)
    hidden = recurrence[1] if kind.is_quantized else recurrence[2]
    return Layer(node, kind, composer, attributes, steps, batch, hidden, recurrence[0])


def _run_direction(layer: Layer, number: int, data: str, batch_first: bool) -> tuple[list[str], State]:
    """Return the output of each step, in the order of time, and the last state."""
    composer, width = layer.composer, layer.kind.gates * layer.hidden
    biases = layer.of_direction(3, number)
    input_bias, recurrence_bias = composer.split(biases, 0, [width, width]) if biases else ("", "")
    projected = _weights(layer, 1, number).multiply(composer, data)
    if input_bias:
        projected = composer.add("Add", projected, input_bias)
    recurrence = _weights(layer, 2, number)
    seen = layer.of_direction(7, number) if layer.kind.states > 1 else ""
    peepholes = tuple(composer.split(seen, 0, [layer.hidden] * 3)) if seen else ()
    direction = Direction(layer, number, recurrence, recurrence_bias, peepholes)
    state = [_initial(layer, 5 + index, number, batch_first) for index in range(layer.kind.states)]
    inputs = [composer.squeeze(part, [0]) for part in composer.split(projected, 0, [1] * layer.steps)]
    backwards = number == 1 or layer.attributes.get("direction") == "reverse"
    times = range(layer.steps - 1, -1, -1) if backwards else range(layer.steps)
    outputs = {}
    for time in times:
        new = layer.kind.step(direction, inputs[time], state)
        outputs[time], state = _within_length(layer, time, new, state)
    return [outputs[time] for time in range(layer.steps)], state


def _weights(layer: Layer, index: int, number: int) -> Weights:
    """Return one direction's weights for the data if ``index`` is 1, or for the state if it is 2."""
    own = layer.of_direction(index, number)
    if not layer.kind.is_quantized:
        return Weights(layer.composer.add("Transpose", own, perm=[1, 0]))
    scale = 6 + 2 * index
    return Weights(own, layer.of_direction(scale, number), layer.of_direction(scale + 1, number))


def _initial(layer: Layer, index: int, number: int, batch_first: bool) -> str:
    name, composer = layer.input(index), layer.composer
    if name:
        axis = 1 if batch_first else 0
        part = composer.split(name, axis, [1] * layer.directions)[number]
        return composer.squeeze(part, [axis])
    return composer.constant(np.zeros((layer.batch, layer.hidden), dtype=layer.dtype))


def _within_length(layer: Layer, time: int, new: State, old: State) -> tuple[str, State]:
    """Return the output and the state of a step: for sequences that have ended, zeros and the old state."""
    name, composer = layer.input(4), layer.composer
    lengths = composer.scope.constant(name) if name else None
    if not name or (lengths is not None and (lengths >= layer.steps).all()):
        return new[0], new
    # The lengths become floats, because Less knows no other type up to opset 8.
    lengths_of_rows = composer.unsqueeze(composer.add("Cast", name, to=onnx.TensorProto.FLOAT), [1])
    inside = composer.add("Less", composer.constant(np.array(time, dtype=np.float32)), lengths_of_rows)
    zero = composer.constant(np.zeros((), dtype=layer.dtype))
    state = [composer.where(inside, after, before) for after, before in zip(new, old, strict=True)]
    return composer.where(inside, new[0], zero), state
