"""Expansion of LpNormalization, the last operator of networks that embed faces or words."""

from __future__ import annotations

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of

_AXES_AS_INPUT = 18


def lp_normalization(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand LpNormalization: divide by the norm along an axis; zeros, whose norm is 0, stay zeros.

    Return None if the element type is unknown.
    """
    attributes, kind = attributes_of(node), scope.element_type(node.input[0])
    if kind is None:
        return None
    operator, axis = f"ReduceL{attributes.get('p', 2)}", attributes.get("axis", -1)
    composer, values = Composer(scope, node.name or "LpNormalization"), node.input[0]
    wide = kind if kind == onnx.TensorProto.DOUBLE else onnx.TensorProto.FLOAT
    if kind != wide:  # squares of half precision overflow
        values = composer.add("Cast", values, to=wide)
    if scope.opset >= _AXES_AS_INPUT:
        norm = composer.add(operator, values, composer.constant(np.array([axis], dtype=np.int64)), keepdims=1)
    else:
        norm = composer.add(operator, values, axes=[axis], keepdims=1)
    has_norm = composer.add("Cast", norm, to=onnx.TensorProto.BOOL)
    one_for_none = composer.add("Cast", composer.add("Not", has_norm), to=wide)
    divided = composer.add("Div", values, composer.add("Add", norm, one_for_none))
    result = composer.add("Mul", divided, composer.add("Cast", has_norm, to=wide))
    composer.name(result if kind == wide else composer.add("Cast", result, to=kind), node.output[0])
    return composer.nodes
