"""Recurrences that become one kernel on CPUs: left as they are, or with what the kernel does not do before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Nodes, Rule, Scope, attributes_of
from tvmbuild.compiler.kernels.recurrence.form import GATES, Kind, Recurrence

QUANTIZED = "tvmbuild_quantized"
"""Attribute of an LSTM whose inputs are the gates of the data, integers and scales, as the kernel reads them."""
LARGEST_WEIGHTS = 1 << 19
"""Numbers that one thread reads at each step; larger products are for all threads."""
MAX_SEQUENCES = 4
"""In a batch: with more, a product of matrices reads the weights once for several sequences."""
_ACTIVATIONS: Mapping[Kind, tuple[str, ...]] = {
    "LSTM": ("sigmoid", "tanh", "tanh"),
    "GRU": ("sigmoid", "tanh"),
    "RNN": ("tanh",),
}
_ALONE = {"clip": 0.0, "input_forget": 0}
"""Attributes that the kernel does not know, and their defaults."""


def describe_recurrence(
    kind: Kind, attributes: Mapping[str, Any], data: tuple[int, ...], sizes: tuple[int, int]
) -> Recurrence | None:
    """Return the kernel of a node with data of that shape and ``sizes``, its directions and hidden units.

    None where the kernel does not know the attributes, or is no faster than single steps.
    """
    directions, hidden = sizes
    steps, batch = (data[1], data[0]) if attributes.get("layout", 0) else (data[0], data[1])
    default = _ACTIVATIONS[kind] * directions
    activations = tuple(str(each).lower() for each in attributes.get("activations", default))
    is_relu = kind == "RNN" and set(activations) == {"relu"}
    unknown = any(attributes.get(name, value) != value for name, value in _ALONE.items())
    if unknown or (activations != default and not is_relu):
        return None
    if steps < 2 or batch > MAX_SEQUENCES or GATES[kind] * hidden * hidden > LARGEST_WEIGHTS:
        return None
    backward = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    return Recurrence(
        kind,
        steps,
        batch,
        hidden,
        backward[attributes.get("direction", "forward")],
        bool(attributes.get("linear_before_reset", 0)),
        "Relu" if is_relu else "Tanh",
    )


def keep_recurrence(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Leave a recurrence that becomes a kernel as it is; None for others, which are unrolled."""
    attributes, given = attributes_of(node), [*node.input, *[""] * 8]
    data, weights = scope.shape(given[0]), scope.shape(given[2])
    if attributes.get(QUANTIZED):
        return [node]
    if data is None or weights is None or not _knows_inputs(given, given[1:4], scope):
        return None
    form = describe_recurrence(cast("Kind", node.op_type), attributes, data, (weights[0], weights[2]))
    return None if form is None else [node]


def keep_quantized(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Multiply the data of a DynamicQuantizeLSTM by its integers, and leave the rest to the kernel as an LSTM.

    None where it has more sequences than one, which ONNX Runtime rounds together.
    """
    attributes, given = attributes_of(node), [*node.input, *[""] * 12]
    data, weights = scope.shape(given[0]), scope.shape(given[2])
    if data is None or weights is None or not _knows_inputs(given, [*given[1:4], *given[8:12]], scope):
        return None
    form = describe_recurrence("LSTM", attributes, data, (weights[0], weights[1]))
    if form is None or form.batch > 1 or attributes.get("layout", 0):
        return None
    composer = Composer(scope, node.name or node.op_type)
    gates = [_project(composer, form, given, number) for number in range(form.directions)]
    packed, scales = _pack(form, [scope.constant(name) for name in (given[2], *given[10:12])])
    inputs = [composer.concat(gates, 2), composer.constant(packed), composer.constant(scales), "", "", *given[5:7]]
    own = {"direction": attributes.get("direction", "forward"), "hidden_size": form.hidden, QUANTIZED: 1}
    composer.nodes.append(helper.make_node("LSTM", inputs, node.output, **own))
    return composer.nodes


RULES: Mapping[str, Rule] = {**dict.fromkeys(GATES, keep_recurrence), "DynamicQuantizeLSTM": keep_quantized}
"""The rules of targets that have the kernel."""


def _knows_inputs(given: Sequence[str], weights: Sequence[str], scope: Scope) -> bool:
    """Return whether the kernel supports the node's inputs: float32, no lengths, no peepholes, constant weights."""
    if given[4] or given[7] or scope.element_type(given[0]) != TensorProto.FLOAT:
        return False
    return all(scope.is_constant(name) for name in weights if name)


def _project(composer: Composer, form: Recurrence, given: Sequence[str], number: int) -> str:
    """Multiply the data by one direction's integers, in panels, and add both biases."""
    weights, scale, zero = (_of_direction(composer.scope, given[place], number) for place in (1, 8, 9))
    units = form.gates * form.hidden
    packed = [
        form.pack_gates(weights.T, int(zero.reshape(-1)[0])).T,
        form.pack_gates(np.broadcast_to(scale, units), 1) if scale.size > 1 else scale,
        form.pack_gates(np.broadcast_to(zero, units), zero.reshape(-1)[0]) if zero.size > 1 else zero,
    ]
    constants = [composer.constant(np.ascontiguousarray(each)) for each in packed]
    product = composer.add("DynamicQuantizeMatMul", given[0], *constants, domain="com.microsoft")
    if not given[3]:
        return product
    biases = _of_direction(composer.scope, given[3], number)
    return composer.add("Add", product, composer.constant(form.pack_gates(biases[:units] + biases[units:])))


def _of_direction(scope: Scope, name: str, number: int) -> NDArray[Any]:
    """Return one direction's part of a constant."""
    part: NDArray[Any] = np.asarray(scope.constant(name))[number]
    return part


def _pack(form: Recurrence, parameters: Sequence[Any]) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return the state's integers less their zero points as the kernel reads them, and a scale for each gate."""
    weights, scale, zero = parameters
    moved = weights.astype(np.int16) - zero.astype(np.int16).reshape(form.directions, 1, -1)
    is_narrow = moved.min() >= np.iinfo(np.int8).min and moved.max() <= np.iinfo(np.int8).max
    scales = np.broadcast_to(scale.reshape(form.directions, -1), (form.directions, form.gates * form.hidden))
    packed = replace(form, weights="int8" if is_narrow else "int16").pack_weights(moved.swapaxes(1, 2))
    return packed, np.stack([form.pack_gates(each) for each in scales]).astype(np.float32)
