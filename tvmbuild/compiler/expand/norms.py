"""LpNormalization: what an embedding of faces or words ends with."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tvmbuild.compiler.expand.compose import Composer
from tvmbuild.compiler.expand.scope import Nodes, Scope, attributes_of

_AXES_AS_INPUT = 18


def lp_normalization(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Divide by the norm along an axis; zeros, whose norm is none, stay zeros."""
    attributes, kind = attributes_of(node), scope.element_type(node.input[0])
    if kind is None:
        return None
    operator, axis = f"ReduceL{attributes.get('p', 2)}", attributes.get("axis", -1)
    composer = Composer(scope, node.name or "LpNormalization")
    if scope.opset >= _AXES_AS_INPUT:
        norm = composer.add(operator, node.input[0], composer.constant(np.array([axis], dtype=np.int64)), keepdims=1)
    else:
        norm = composer.add(operator, node.input[0], axes=[axis], keepdims=1)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    least = composer.constant(np.array(np.finfo(dtype).tiny, dtype=dtype))
    composer.name(composer.add("Div", node.input[0], composer.add("Max", norm, least)), node.output[0])
    return composer.nodes
