"""Rules that leave a recurrent layer as one node, for one kernel, and move other work before it."""

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
"""The attribute that marks an LSTM whose inputs are as the kernel reads them: gates of the data, integers, scales."""
FOR_BLOCKS = "tvmbuild_blocks"
"""The attribute that marks a node whose kernel a pass writes again for a GPU."""
LARGEST_WEIGHTS = 1 << 19
"""The largest number of weights for one thread of a CPU to read in each step; all threads share larger products."""
MAX_SEQUENCES = 4
"""The largest number of sequences in a batch for the kernel on CPUs.

With more sequences, a product of matrices reads the weights once for several sequences.
"""
MOST_UNROLLED = 256
"""The largest number of steps for which a GPU gets kernels for each step; it takes 17 s to build as many."""
_LENGTHS = 4
_ACTIVATIONS: Mapping[Kind, tuple[str, ...]] = {
    "LSTM": ("sigmoid", "tanh", "tanh"),
    "GRU": ("sigmoid", "tanh"),
    "RNN": ("tanh",),
}
_ALONE = {"clip": 0.0, "input_forget": 0}
"""The attributes that the kernel supports only with their default values, and these values."""


def describe_recurrence(
    kind: Kind, attributes: Mapping[str, Any], data: tuple[int, ...], sizes: tuple[int, int]
) -> Recurrence | None:
    """Return the kernel's form for a node, or None if the kernel lacks an attribute.

    ``data`` is the shape of the data, and ``sizes`` are the numbers of directions and of hidden units.
    """
    directions, hidden = sizes
    steps, batch = (data[1], data[0]) if attributes.get("layout", 0) else (data[0], data[1])
    default = _ACTIVATIONS[kind] * directions
    activations = tuple(str(each).lower() for each in attributes.get("activations", default))
    is_relu = kind == "RNN" and set(activations) == {"relu"}
    unknown = any(attributes.get(name, value) != value for name, value in _ALONE.items())
    if unknown or (activations != default and not is_relu):
        return None
    if steps < 2:
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
    """Return the node itself if it becomes a kernel on CPUs, or None for a recurrence that is unrolled."""
    if attributes_of(node).get(QUANTIZED):
        return [node]
    form = _describe_floats(node, scope, TensorProto.FLOAT)
    return None if form is None or not suits_cpus(form) else [node]


def keep_block(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the node, marked and in float32, if it becomes a kernel on GPUs, or None for one that is unrolled."""
    attributes = attributes_of(node)
    if attributes.get(FOR_BLOCKS):
        return [node]
    form = _describe_floats(node, scope, TensorProto.FLOAT, TensorProto.FLOAT16)
    if form is None or not suits_gpus(form):
        return None
    is_wide = scope.element_type(node.input[0]) == TensorProto.FLOAT
    marked = attributes | {FOR_BLOCKS: 1}
    return (
        [helper.make_node(node.op_type, node.input, node.output, **marked)] if is_wide else _widen(node, scope, marked)
    )


def keep_quantized(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand DynamicQuantizeLSTM to products of the data with its integers, and an LSTM for the kernel.

    Return None if the kernel does not support the node, or if there are several sequences, because ONNX Runtime rounds
    these together.
    """
    attributes, given = attributes_of(node), [*node.input, *[""] * 12]
    data, weights = scope.shape(given[0]), scope.shape(given[2])
    constants = [*given[1:4], *given[8:12]]
    if data is None or weights is None or not _knows_inputs(given, constants, scope, [TensorProto.FLOAT]):
        return None
    form = describe_recurrence("LSTM", attributes, data, (weights[0], weights[1]))
    if form is None or not suits_cpus(form) or given[4] or form.batch > 1 or attributes.get("layout", 0):
        return None
    composer = Composer(scope, node.name or node.op_type)
    gates = [_project(composer, form, given, number) for number in range(form.directions)]
    packed, scales = _pack(form, [scope.constant(name) for name in (given[2], *given[10:12])])
    inputs = [composer.concat(gates, 2), composer.constant(packed), composer.constant(scales), "", "", *given[5:7]]
    own = {"direction": attributes.get("direction", "forward"), "hidden_size": form.hidden, QUANTIZED: 1}
    composer.nodes.append(helper.make_node("LSTM", inputs, node.output, **own))
    return composer.nodes


RULES: Mapping[str, Rule] = {**dict.fromkeys(GATES, keep_recurrence), "DynamicQuantizeLSTM": keep_quantized}
"""The rules for CPUs."""
GPU_RULES: Mapping[str, Rule] = dict.fromkeys(GATES, keep_block)
"""The rules for GPUs."""


def _describe_floats(node: onnx.NodeProto, scope: Scope, *types: int) -> Recurrence | None:
    """Return the kernel's form for a node whose data are of one of the types, or None if the kernel does not fit."""
    attributes, given = attributes_of(node), [*node.input, *[""] * 8]
    data, weights = scope.shape(given[0]), scope.shape(given[2])
    if data is None or weights is None or not _knows_inputs(given, given[1:4], scope, types):
        return None
    return describe_recurrence(cast("Kind", node.op_type), attributes, data, (weights[0], weights[2]))


def suits_cpus(form: Recurrence) -> bool:
    """Return whether the kernel is faster on CPUs than single steps, which all threads share."""
    return form.batch <= MAX_SEQUENCES and form.gates * form.hidden**2 <= LARGEST_WEIGHTS


def suits_gpus(form: Recurrence) -> bool:
    """Return whether the kernel is faster on GPUs than single steps, or single steps would take long to build."""
    return form.steps > MOST_UNROLLED or not form.is_large


def _widen(node: onnx.NodeProto, scope: Scope, attributes: Mapping[str, Any]) -> Nodes:
    """Return a float16 node as one in float32, with these attributes, between casts; its weights stay constants."""
    composer = Composer(scope, node.name or node.op_type)
    inputs = []
    for place, name in enumerate(node.input):
        if not name or place == _LENGTHS:
            inputs.append(name)
        elif scope.is_constant(name):
            inputs.append(composer.constant(np.asarray(scope.constant(name), np.float32)))
        else:
            inputs.append(composer.add("Cast", name, to=TensorProto.FLOAT))
    made = [scope.fresh(name) if name else "" for name in node.output]
    composer.nodes.append(helper.make_node(node.op_type, inputs, made, **attributes))
    for wide, name in zip(made, node.output, strict=True):
        if name:
            composer.nodes.append(helper.make_node("Cast", [wide], [name], to=TensorProto.FLOAT16))
    return composer.nodes


def _knows_inputs(given: Sequence[str], weights: Sequence[str], scope: Scope, types: Sequence[int]) -> bool:
    """Return whether the kernel supports the node's inputs: floats, no peepholes, constant weights."""
    if given[7] or scope.element_type(given[0]) not in types:
        return False
    return all(scope.is_constant(name) for name in weights if name)


def _project(composer: Composer, form: Recurrence, given: Sequence[str], number: int) -> str:
    """Return the data times one direction's integers, in the kernel's panels, plus both biases."""
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
    """Return the part of a constant for one direction."""
    part: NDArray[Any] = np.asarray(scope.constant(name))[number]
    return part


def _pack(form: Recurrence, parameters: Sequence[Any]) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return the state's integers minus their zero points, in the kernel's order, and a scale for each gate's unit."""
    weights, scale, zero = parameters
    moved = weights.astype(np.int16) - zero.astype(np.int16).reshape(form.directions, 1, -1)
    is_narrow = moved.min() >= np.iinfo(np.int8).min and moved.max() <= np.iinfo(np.int8).max
    scales = np.broadcast_to(scale.reshape(form.directions, -1), (form.directions, form.gates * form.hidden))
    packed = replace(form, weights="int8" if is_narrow else "int16").pack_weights(moved.swapaxes(1, 2))
    return packed, np.stack([form.pack_gates(each) for each in scales]).astype(np.float32)
