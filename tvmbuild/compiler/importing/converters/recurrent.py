"""The converter of LSTM, GRU and RNN with constant weights: one product for the inputs of all steps, and one kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from tvm import relax

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.importing.expand.recurrent_kernels import FOR_BLOCKS, QUANTIZED, describe_recurrence
from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.kernels.recurrence.form import FORM, Kind, Recurrence
from tvmbuild.compiler.kernels.recurrence.kernel import write_recurrence
from tvmbuild.errors import TvmbuildError

_BIASES, _LENGTHS, _STATE = 3, 4, 5


def convert_recurrence(call: NodeCall) -> relax.Expr:
    """Convert an LSTM, GRU or RNN that `recurrent_kernels` left whole; return its outputs.

    Raises TvmbuildError if its weights are not constants, or its form is not the kernel's.
    """
    first, second = call.values(1), call.values(2)
    if first is None or second is None:
        raise TvmbuildError("its weights are not constants")
    attributes = {name: _decode(value) for name, value in call.attributes.items()}
    sizes = int(second.shape[0]), int(attributes.get("hidden_size", second.shape[-1]))
    form = describe_recurrence(cast("Kind", call.operator), attributes, call.shape, sizes)
    if form is None:
        raise TvmbuildError("its form is not that of the kernel")
    lengths = call.inputs[_LENGTHS] if len(call.inputs) > _LENGTHS else None
    form = replace(form, has_lengths=lengths is not None)
    batch_first = bool(attributes.get("layout", 0))
    data = call.emit(relax.op.permute_dims, call.data, [1, 0, 2]) if batch_first else call.data
    if attributes.get(QUANTIZED):
        form = replace(form, weights=cast("Any", str(first.dtype)))
        arguments = [data, constant(first), constant(second)]
    else:
        arguments = _multiply(call, form, data, (first, second))
    arguments += [_initial(call, form, _STATE + index, batch_first) for index in range(form.states)]
    arguments += [] if lengths is None else [lengths]
    whole = (form.directions, form.batch, form.hidden)
    types = [relax.TensorType(shape, "float32") for shape in ((form.steps, *whole), *[whole] * form.states)]
    function = write_recurrence(form)
    if attributes.get(FOR_BLOCKS):
        function = function.with_attr(FORM, form.describe())
    variable = call.builder.add_func(function, form.kind.lower())
    made = call.builder.emit(relax.call_tir(variable, arguments, types))
    outputs = [call.builder.emit(relax.TupleGetItem(made, index)) for index in range(len(types))]
    if batch_first:
        perms = [[2, 0, 1, 3], *[[1, 0, 2]] * form.states]
        outputs = [call.emit(relax.op.permute_dims, each, perm) for each, perm in zip(outputs, perms, strict=True)]
    return outputs[0] if call.outputs == 1 else relax.Tuple(outputs[: call.outputs])


def _multiply(
    call: NodeCall, form: Recurrence, data: relax.Expr, weights: tuple[NDArray[np.float32], NDArray[np.float32]]
) -> list[relax.Expr]:
    """Multiply the inputs of all steps by the weights; return the products, and the weights and bias for the kernel."""
    of_data, of_state = weights
    given = call.values(_BIASES) if len(call.inputs) > _BIASES and call.inputs[_BIASES] is not None else None
    both = np.zeros((form.directions, 2, form.gates * form.hidden), np.float32) if given is None else given
    both = both.reshape(form.directions, 2, -1).copy()
    inside_reset = np.zeros((form.directions, form.hidden), np.float32)
    if form.linear_before_reset:
        inside_reset = both[:, 1, -form.hidden :].copy()
        both[:, 1, -form.hidden :] = 0
    matrix = np.concatenate([form.pack_gates(each) for each in of_data]).T
    biases = np.concatenate([form.pack_gates(each) for each in both.sum(1)])
    rows = call.emit(relax.op.reshape, data, (form.steps * form.batch, of_data.shape[2]))
    product = call.emit(relax.op.matmul, rows, constant(np.ascontiguousarray(matrix)))
    biased = call.emit(relax.op.add, product, constant(biases))
    projected = call.emit(relax.op.reshape, biased, (form.steps, form.batch, form.directions * form.width))
    return [projected, constant(form.pack_weights(of_state)), constant(form.pack_bias(inside_reset))]


def _initial(call: NodeCall, form: Recurrence, index: int, batch_first: bool) -> relax.Expr:
    """Return the initial state as [directions, batch, hidden], or zeros if the node has no initial state."""
    given = call.inputs[index] if index < len(call.inputs) else None
    if given is None:
        return constant(np.zeros((form.directions, form.batch, form.hidden), np.float32))
    return call.emit(relax.op.permute_dims, given, [1, 0, 2]) if batch_first else given


def _decode(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_decode, value))
    return value.decode() if isinstance(value, bytes) else value
