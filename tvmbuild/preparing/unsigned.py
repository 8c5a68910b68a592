"""Activations of int8 become uint8: the same numbers, and what processors multiply with int8 weights the fastest."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

_SHIFT = 128


def make_unsigned(proto: Any) -> None:
    """Give every int8 activation between QuantizeLinear and DequantizeLinear a zero point of uint8 (in place)."""
    graph = proto.graph
    zeros = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT8}
    outputs = {value.name for value in graph.output}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    taken = {name for tensor in (*graph.initializer, *graph.node) for name in _list_names(tensor)}
    made: dict[str, str] = {}
    for node in graph.node:
        if node.op_type != "QuantizeLinear" or len(node.input) < 3 or node.input[2] not in zeros:
            continue
        followers = readers.get(node.output[0], [])
        alike = all(
            each.op_type == "DequantizeLinear" and each.input[2:3] and each.input[2] in zeros for each in followers
        )
        if node.output[0] in outputs or not followers or not alike:
            continue
        for each in (node, *followers):
            each.input[2] = _shift(graph, zeros[each.input[2]], made, taken)
    used = {name for node in graph.node for name in node.input} | outputs
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del graph.value_info[:]  # types that were


def _list_names(item: Any) -> list[str]:
    return [item.name] if isinstance(item, onnx.TensorProto) else [*item.input, *item.output]


def _shift(graph: Any, zero: Any, made: dict[str, str], taken: set[str]) -> str:
    """Return the name of the zero point as uint8."""
    if zero.name not in made:
        name = f"{zero.name}_uint8"
        while name in taken:
            name += "_"
        taken.add(name)
        values = onnx.numpy_helper.to_array(zero).astype(np.int16) + _SHIFT
        graph.initializer.append(onnx.numpy_helper.from_array(values.astype(np.uint8), name))
        made[zero.name] = name
    return made[zero.name]
