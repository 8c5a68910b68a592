"""LSTM, GRU and RNN with constant weights as one product for the inputs of all steps, and one kernel for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import onnx
from numpy.typing import NDArray
from tvm import relax

from tvmbuild.compiler.expressions import constant
from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.importing.expand.scope import Scope, attributes_of
from tvmbuild.compiler.kernels.recurrence import GATES, Kind, Recurrence, write_recurrence
from tvmbuild.errors import TvmbuildError

LARGEST_WEIGHTS = 1 << 19
"""Numbers that one thread reads at each step; larger products, of more sequences too, are for all threads."""
MOST_SEQUENCES = 4
"""In a batch: with more, weights are read once for several sequences in a product of matrices."""
_ACTIVATIONS: Mapping[Kind, tuple[str, ...]] = {
    "LSTM": ("sigmoid", "tanh", "tanh"),
    "GRU": ("sigmoid", "tanh"),
    "RNN": ("tanh",),
}
_ALONE = {"clip": 0.0, "input_forget": 0}
"""Attributes that the kernel does not know, and their defaults."""
_DATA, _INPUT_WEIGHTS, _STATE_WEIGHTS, _BIASES, _LENGTHS, _STATE, _PEEPHOLES = 0, 1, 2, 3, 4, 5, 7


def is_one_kernel(node: onnx.NodeProto, scope: Scope) -> bool:
    """Say whether the node is a recurrence that becomes a kernel; others are unrolled."""
    if node.domain not in {"", "ai.onnx"} or node.op_type not in GATES:
        return False
    given = [*node.input, *[""] * 8]
    if given[_LENGTHS] or given[_PEEPHOLES] or scope.element_type(given[_DATA]) != onnx.TensorProto.FLOAT:
        return False
    weights = [name for name in given[_INPUT_WEIGHTS : _BIASES + 1] if name]
    data, recurrence = scope.shape(given[_DATA]), scope.shape(given[_STATE_WEIGHTS])
    if data is None or recurrence is None or not all(map(scope.is_constant, weights)):
        return False
    return _describe(cast("Kind", node.op_type), attributes_of(node), data, recurrence) is not None


def convert_recurrence(call: NodeCall) -> relax.Expr:
    """Return all outputs; the weights are laid out here as the kernel reads them."""
    weights = [call.values(index) for index in (_INPUT_WEIGHTS, _STATE_WEIGHTS)]
    kind = cast("Kind", call.operator)
    attributes = {name: _decode(value) for name, value in call.attributes.items()}
    inputs, recurrence = weights
    form = None
    if inputs is not None and recurrence is not None:
        form = _describe(kind, attributes, call.shape, recurrence.shape)
    if form is None or inputs is None or recurrence is None:
        raise TvmbuildError("its weights, or the lengths of its sequences, are not known when the package is built")
    biases = call.values(_BIASES) if len(call.inputs) > _BIASES and call.inputs[_BIASES] is not None else None
    if biases is None:
        biases = np.zeros((form.directions, 2 * form.gates * form.hidden), np.float32)
    batch_first = bool(attributes.get("layout", 0))
    data = call.emit(relax.op.permute_dims, call.data, [1, 0, 2]) if batch_first else call.data
    arguments = [_project(call, form, data, (inputs, biases)), constant(form.pack_weights(recurrence))]
    inside_reset = biases[:, -form.hidden :] if form.linear_before_reset else np.zeros_like(biases[:, : form.hidden])
    arguments.append(constant(form.pack_bias(inside_reset)))
    arguments += [_initial(call, form, _STATE + index, batch_first) for index in range(form.states)]
    whole = (form.directions, form.batch, form.hidden)
    types = [relax.TensorType(shape, "float32") for shape in ((form.steps, *whole), *[whole] * form.states)]
    variable = call.builder.add_func(write_recurrence(form), kind.lower())
    made = call.builder.emit(relax.call_tir(variable, arguments, types))
    outputs = [call.builder.emit(relax.TupleGetItem(made, index)) for index in range(len(types))]
    if batch_first:
        outputs = [call.emit(relax.op.permute_dims, outputs[0], [2, 0, 1, 3])] + [
            call.emit(relax.op.permute_dims, each, [1, 0, 2]) for each in outputs[1:]
        ]
    return relax.Tuple(outputs[: call.outputs])


def _describe(
    kind: Kind, attributes: Mapping[str, Any], data: tuple[int, ...], recurrence: tuple[int, ...]
) -> Recurrence | None:
    """Return the kernel's sizes; None where the recurrence is none for it."""
    directions, _, hidden = recurrence
    steps, batch = (data[1], data[0]) if attributes.get("layout", 0) else (data[0], data[1])
    default = _ACTIVATIONS[kind] * directions
    activations = tuple(str(each).lower() for each in attributes.get("activations", default))
    is_relu = kind == "RNN" and set(activations) == {"relu"}
    unknown = any(attributes.get(name, value) != value for name, value in _ALONE.items())
    if unknown or (activations != default and not is_relu):
        return None
    if steps < 2 or batch > MOST_SEQUENCES or GATES[kind] * hidden * hidden > LARGEST_WEIGHTS:
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


Weights = tuple[NDArray[np.float32], NDArray[np.float32]]


def _project(call: NodeCall, form: Recurrence, data: relax.Expr, weights: Weights) -> relax.Expr:
    """Return what the inputs of all steps add to the gates, with the biases: one product for all directions."""
    inputs, biases = weights
    added = []
    for of_input, of_state in zip(*np.split(biases, 2, axis=1), strict=True):
        seen = of_state.copy()
        if form.linear_before_reset:
            seen[2 * form.hidden :] = 0  # inside the reset gate's product
        added.append(form.pack_gates(of_input + seen))
    matrix = np.concatenate([form.pack_gates(each) for each in inputs]).T
    rows = call.emit(relax.op.reshape, data, (form.steps * form.batch, inputs.shape[2]))
    product = call.emit(relax.op.matmul, rows, constant(np.ascontiguousarray(matrix)))
    biased = call.emit(relax.op.add, product, constant(np.concatenate(added)))
    return call.emit(relax.op.reshape, biased, (form.steps, form.batch, form.directions * form.width))


def _initial(call: NodeCall, form: Recurrence, index: int, batch_first: bool) -> relax.Expr:
    """Return the state that is given, as [directions, batch, hidden]; zeros where none is."""
    given = call.inputs[index] if index < len(call.inputs) else None
    if given is None:
        return constant(np.zeros((form.directions, form.batch, form.hidden), np.float32))
    return call.emit(relax.op.permute_dims, given, [1, 0, 2]) if batch_first else given


def _decode(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_decode, value))
    return value.decode() if isinstance(value, bytes) else value
