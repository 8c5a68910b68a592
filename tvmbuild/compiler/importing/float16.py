"""16-bit floats of ONNX files: CPUs compute them in float32, GPUs add them up in float32.

Most CPUs have no 16-bit arithmetic; emulated element by element, it takes several times as long as float32. A sum in 16
bits soon becomes wrong: when it adds ones, float16 stops at 2048.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, rename_node, subgraphs, walk_nodes

_NARROW = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
_QUANTIZERS = frozenset({"DequantizeLinear", "QuantizeLinear"})
_TYPES = frozenset({"dtype", "output_dtype", "softmax_precision", "stash_type"})
"""The attributes, except Cast's ``to``, that name an element type."""
_WIDE_ON_GPUS = frozenset(
    {
        *(f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "Sum", "SumSquare")),
        *("AveragePool", "GlobalAveragePool", "GlobalLpPool", "LpPool"),
        *("BatchNormalization", "InstanceNormalization", "LRN", "LayerNormalization", "MeanVarianceNormalization"),
        *("CumSum", "LogSoftmax", "Mean", "Softmax", "Softplus", "Sum"),
        *("Acos", "Acosh", "Asin", "Asinh", "Atanh", "Mod", "Round"),  # CUDA has them in float32 only
        *("GridSample", "Resize", "RoiAlign"),  # products of coordinates, which need more than 11 bits
    }
)
"""Operators whose intermediate results do not fit into 16 bits; later passes take care of matrix products."""


def compute_in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with float32 instead of 16-bit floats; its inputs and outputs keep their types.

    The weights are converted here. A Cast to 16 bits still rounds.
    """
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    attributes = (attribute for node in walk_nodes(model.graph) for attribute in node.attribute)
    holds = _list_narrow(model.graph.input) or any(map(_is_narrow, model.graph.initializer))
    if not holds and not any(map(_names_narrow, attributes)):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    taken = {name for node in walk_nodes(graph) for name in (*node.input, *node.output)}
    constants = {tensor.name for tensor in graph.initializer}
    fed = [value for value in graph.input if value.name not in constants]  # old files list constants as inputs, too
    del graph.input[:]
    graph.input.extend(fed)
    inputs, outputs = _list_narrow(fed), _list_narrow(graph.output) | _find_undeclared(model)
    names = {name: _make_fresh(name, taken) for name in (*inputs, *outputs)}
    begin = [_cast(name, names[name], TensorProto.FLOAT) for name in inputs]
    end = [_cast(names[name], name, kind) for name, kind in outputs.items() if name not in inputs]
    quantizers, nodes = _find_narrow_quantizers(model), Nodes()
    for index, node in enumerate(graph.node):
        renamed, kinds = rename_node(node, names), quantizers.get(index)
        nodes += _widen_node(renamed, taken) if kinds is None else _keep_rounding(renamed, kinds, taken)
    for tensor in graph.initializer:
        _widen_tensor(tensor)
        tensor.name = names.get(tensor.name, tensor.name)
    del graph.node[:]
    graph.node.extend([*begin, *nodes, *end])
    del graph.value_info[:]
    return result


def add_up_in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the operators on 16-bit floats computed in float32 that GPUs need so, as sums."""
    if not any(node.op_type in _WIDE_ON_GPUS for node in model.graph.node):
        return model
    scope, nodes, changed = Scope(model), Nodes(), False
    for node in model.graph.node:
        kind = scope.element_type(node.input[0]) if node.op_type in _WIDE_ON_GPUS else None
        if kind is None or kind not in _NARROW:
            nodes.append(node)
            continue
        composer, changed = Composer(scope, node.name or node.op_type), True
        inputs = [
            composer.add("Cast", name, to=TensorProto.FLOAT) if name and scope.element_type(name) in _NARROW else name
            for name in node.input
        ]
        wide = onnx.NodeProto()
        wide.CopyFrom(node)
        wide.input[:] = inputs
        wide.output[:] = [name and scope.fresh(name) for name in node.output]
        ends = zip(wide.output, node.output, strict=True)
        nodes += [*composer.nodes, wide, *(_cast(own, name, kind) for own, name in ends if name)]
    if changed:
        result = onnx.ModelProto()
        result.CopyFrom(scope.model)
        del result.graph.node[:]
        result.graph.node.extend(nodes)
        return result
    return model


def _cast(value: str, output: str, kind: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [value], [output], to=kind)


def _widen_node(node: onnx.NodeProto, taken: set[str]) -> Nodes:
    """Change the node to float32 in place; return it and, after a Cast to 16 bits, a Cast back to float32."""
    after: Nodes = []
    for attribute in node.attribute:
        for graph in subgraphs(attribute):
            _widen_graph(graph, taken)
        for tensor in filter(_is_narrow, (attribute.t, *attribute.tensors)):
            _widen_tensor(tensor)
        if attribute.name in _TYPES and attribute.i in _NARROW:
            attribute.i = TensorProto.FLOAT
        if attribute.name == "to" and attribute.i in _NARROW:
            wide = node.output[0]
            node.output[0] = _make_fresh(wide, taken)
            after = [_cast(node.output[0], wide, TensorProto.FLOAT)]
    return [node, *after]


def _find_narrow_quantizers(model: onnx.ModelProto) -> dict[int, dict[int, int]]:
    """Return the 16-bit types of the inputs of nodes with 16-bit scales, by the node's index and the input's index.

    These nodes round to integers and back, and the rounding depends on these types.
    """
    if not any(node.op_type in _QUANTIZERS for node in model.graph.node):
        return {}
    scope, found = Scope(model), {}
    for index, node in enumerate(model.graph.node):
        if node.op_type in _QUANTIZERS and scope.element_type(node.input[1]) in _NARROW:
            kinds = [(place, scope.element_type(node.input[place])) for place in (0, 1)]
            found[index] = {place: kind for place, kind in kinds if kind is not None and kind in _NARROW}
    return found


def _keep_rounding(node: onnx.NodeProto, kinds: Mapping[int, int], taken: set[str]) -> Nodes:
    """Return the node, changed in place, with Casts to 16 bits before it.

    If its result is floats, a Cast to float32 follows.
    """
    before, after = Nodes(), Nodes()
    for place, kind in kinds.items():
        wide, node.input[place] = node.input[place], _make_fresh(node.input[place], taken)
        before.append(_cast(wide, node.input[place], kind))
    if node.op_type == "DequantizeLinear":
        wide, node.output[0] = node.output[0], _make_fresh(node.output[0], taken)
        after.append(_cast(node.output[0], wide, TensorProto.FLOAT))
    return [*before, node, *after]


def _widen_graph(graph: onnx.GraphProto, taken: set[str]) -> None:
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in _NARROW:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    nodes = [each for node in graph.node for each in _widen_node(rename_node(node, {}), taken)]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]


def _widen_tensor(tensor: TensorProto) -> None:
    if _is_narrow(tensor):
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))


def _is_narrow(tensor: TensorProto) -> bool:
    return tensor.data_type in _NARROW


def _names_narrow(attribute: onnx.AttributeProto) -> bool:
    """Return whether the attribute holds 16-bit floats or names their type."""
    named = attribute.name in {"to", *_TYPES} and attribute.i in _NARROW
    constants = [
        *attribute.tensors,
        attribute.t,
        *(each for graph in subgraphs(attribute) for each in graph.initializer),
    ]
    return named or any(map(_is_narrow, constants))


def _list_narrow(values: Iterable[onnx.ValueInfoProto]) -> dict[str, int]:
    """Return the types of the values that are 16-bit floats, by the values' names."""
    kinds = {value.name: int(value.type.tensor_type.elem_type) for value in values}
    return {name: kind for name, kind in kinds.items() if kind in _NARROW}


def _find_undeclared(model: onnx.ModelProto) -> dict[str, int]:
    """Return the 16-bit types of outputs whose type the model does not state, by name."""
    names = [value.name for value in model.graph.output if not value.type.tensor_type.elem_type]
    if not names:
        return {}
    scope = Scope(model)
    scales = {node.output[0]: node.input[1] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    kinds = [(name, scope.element_type(name) or scope.element_type(scales.get(name, name))) for name in names]
    return {name: kind for name, kind in kinds if kind is not None and kind in _NARROW}


def _make_fresh(name: str, taken: set[str]) -> str:
    fresh = next(each for i in range(len(taken) + 1) if (each := f"{name}.wide{i or ''}") not in taken)
    taken.add(fresh)
    return fresh
