"""Expansion of operators that ONNX defines by a function of simpler operators: its body replaces the operator."""

from __future__ import annotations

import onnx
import onnx.inliner
from onnx import helper

from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of


def by_function(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the body of the operator's function for the model's opset, or None if ONNX has no function for it."""
    # onnx 1.23's inliner needs a type for each input, even one that is left out.
    values = [_value(name, scope) for name in dict.fromkeys(node.input)]
    outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name]
    model = helper.make_model(
        helper.make_graph([_with_defaults(node, scope)], "node", values, outputs),
        opset_imports=list(scope.model.opset_import),
    )
    try:
        body = onnx.inliner.inline_selected_functions(
            model, [(node.domain, node.op_type)], inline_schema_functions=True
        ).graph
    except (RuntimeError, ValueError):  # the function's author did not expect this type
        return None
    if any(inner.op_type == node.op_type and inner.domain == node.domain for inner in body.node):
        return None
    same = {name: name for name in (*node.input, *node.output)}
    return scope.rename_into(body, same, node.name or node.op_type)


def normalization(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand a LayerNormalization whose mean or deviation is used; return None for others, which TVM converts."""
    return by_function(node, scope) if any(node.output[1:]) else None


def space_to_depth(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand SpaceToDepth of the mode `CRD`, which the importer converts as `DCR`; return None for `DCR`."""
    return by_function(node, scope) if attributes_of(node).get("mode", "DCR") == "CRD" else None


def _with_defaults(node: onnx.NodeProto, scope: Scope) -> onnx.NodeProto:
    """Return the node with its default attributes, because without them onnx's inliner leaves holes in some bodies."""
    try:
        schema = onnx.defs.get_schema(node.op_type, scope.opset, node.domain)
    except onnx.defs.SchemaError:
        return node
    given = {attribute.name for attribute in node.attribute}
    defaults = [each.default_value for name, each in schema.attributes.items() if name not in given]
    full = onnx.NodeProto()
    full.CopyFrom(node)
    full.attribute.extend(each for each in defaults if each.type != onnx.AttributeProto.UNDEFINED)
    return full


def _value(name: str, scope: Scope) -> onnx.ValueInfoProto:
    kind, shape = scope.element_type(name), scope.shape(name)
    return helper.make_tensor_value_info(name, kind or onnx.TensorProto.UNDEFINED, shape)
