"""Operators of a quantised network computed in floats again, as in the float network."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import onnx


def restore(quantised: Any, original: Any, names: Collection[str]) -> Any:
    """Return the QDQ model ``quantised`` with the named nodes in floats; it stays as it is.

    Their inputs are the values before rounding, and their constants are those of the float model ``original``, before
    the corrections that only quantised weights need.
    """
    restored = onnx.ModelProto.FromString(quantised.SerializeToString())
    makers = {name: node for node in restored.graph.node for name in node.output}
    floats = {node.name: node for node in original.graph.node}
    constants = {tensor.name: tensor for tensor in original.graph.initializer}
    taken = {*makers, *(tensor.name for tensor in restored.graph.initializer)}
    added: dict[str, str] = {}
    for node in restored.graph.node:
        if node.name not in names or node.name not in floats:
            continue
        wanted = floats[node.name].input
        found = list(node.input)[: len(wanted)]
        for index, name in enumerate(wanted):
            if name in constants:
                found[index] = _add_constant(restored.graph, constants[name], added, taken)
            else:
                found[index] = _find_unrounded(found[index], makers)
        del node.input[:]
        node.input.extend(found)
    _unround_outputs(restored.graph, makers, names)
    _drop_unused(restored.graph)
    return restored


def _unround_outputs(graph: Any, makers: Mapping[str, Any], names: Collection[str]) -> None:
    """Let the named nodes return outputs of the graph that are rounded behind them (in place)."""
    for value in graph.output:
        name = _find_unrounded(value.name, makers)
        if name == value.name or name not in makers or makers[name].name not in names:
            continue
        makers[value.name].output[0] = f"{value.name}_rounded"
        for node in graph.node:
            for fields in (node.input, node.output):
                for index, each in enumerate(fields):
                    if each == name:
                        fields[index] = value.name


def _add_constant(graph: Any, tensor: Any, added: dict[str, str], taken: set[str]) -> str:
    if tensor.name not in added:
        name = f"{tensor.name}_in_floats"
        while name in taken:
            name += "_"
        taken.add(name)
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = name
        added[tensor.name] = name
    return added[tensor.name]


def _find_unrounded(name: str, makers: Mapping[str, Any]) -> str:
    """Return the tensor before its quantisation and dequantisation; the tensor itself if it is not rounded."""
    while name in makers and makers[name].op_type == "DequantizeLinear":
        integers = makers.get(makers[name].input[0])
        if integers is None or integers.op_type != "QuantizeLinear":
            break
        name = integers.input[0]
    return name


def _drop_unused(graph: Any) -> None:
    """Remove nodes and constants that no output needs (in place)."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    for field, values in ((graph.node, kept[::-1]), (graph.initializer, constants)):
        del field[:]
        field.extend(values)
    del graph.value_info[:]
