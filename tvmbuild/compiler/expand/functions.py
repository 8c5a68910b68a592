"""Operators that ONNX itself defines by simpler ones: the body of its function takes the operator's place."""

from __future__ import annotations

import onnx
from onnx import helper

from tvmbuild.compiler.expand.scope import Nodes, Scope, attributes_of


def by_function(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the body of the operator's function for the model's opset; None where ONNX has none."""
    # An input that is left out needs a type, too: onnx 1.23's inliner asks for that of each.
    values = [_value(name, scope) for name in dict.fromkeys(node.input)]
    outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name]
    model = helper.make_model(
        helper.make_graph([node], "node", values, outputs), opset_imports=list(scope.model.opset_import)
    )
    try:
        body = onnx.inliner.inline_selected_functions(
            model, [(node.domain, node.op_type)], inline_schema_functions=True
        ).graph
    except (RuntimeError, ValueError):  # a type that the function's author did not foresee
        return None
    if any(inner.op_type == node.op_type and inner.domain == node.domain for inner in body.node):
        return None
    same = {name: name for name in (*node.input, *node.output)}
    return scope.rename_into(body, same, node.name or node.op_type)


def normalization(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand a LayerNormalization whose mean or deviation is asked for; the others are left to the importer."""
    return by_function(node, scope) if any(node.output[1:]) else None


def space_to_depth(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand SpaceToDepth with the channels first, which the importer takes for the other order."""
    return by_function(node, scope) if attributes_of(node).get("mode", "DCR") == "CRD" else None


def _value(name: str, scope: Scope) -> onnx.ValueInfoProto:
    kind, shape = scope.element_type(name), scope.shape(name)
    return helper.make_tensor_value_info(name, kind or onnx.TensorProto.UNDEFINED, shape)
