"""Refusals of quantised models: integers below 8 bits, floats of 8 bits, scales of blocks."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.constants import INTEGERS
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of
from tvmbuild.compiler.importing.refusals import refuse

_HINT = "quantise the model to int8 or uint8 (onnxruntime.quantization), or take it in floats"
_PRECISIONS = frozenset({0, TensorProto.FLOAT})


def refuse_small_types(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return None for a QuantizeLinear or DequantizeLinear that the importer converts; raise NodeError for other forms.

    A node whose inputs are all constants may have any form, because it can be folded.
    """
    attributes = attributes_of(node)
    if all(scope.is_constant(name) for name in node.input if name):
        return None
    if attributes.get("block_size", 0):
        raise refuse(node, "its scales are blockwise", _HINT)
    if attributes.get("precision", 0) not in _PRECISIONS:
        raise refuse(node, "its `precision` is not float32", _HINT)
    if node.op_type == "QuantizeLinear":
        named = scope.element_type(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        kind = named or attributes.get("output_dtype", 0) or TensorProto.UINT8
    else:
        kind = scope.element_type(node.input[0]) or TensorProto.UINT8
    if kind not in INTEGERS:
        raise refuse(node, f"its integers are of the type {TensorProto.DataType.Name(kind).lower()}", _HINT)
    return None


def refuse_blocks(node: onnx.NodeProto, _scope: Scope) -> Nodes | None:
    """Raise NodeError: weights of a few bits with scales of blocks are not supported."""
    bits = attributes_of(node).get("bits", 4)
    raise refuse(node, f"its weights have {bits} bits and scales of blocks", _HINT)


def take_as_onnx(node: onnx.NodeProto, _scope: Scope) -> Nodes | None:
    """Return a copy of the node in ONNX's own domain."""
    own = onnx.NodeProto()
    own.CopyFrom(node)
    own.domain = ""
    return [own]
