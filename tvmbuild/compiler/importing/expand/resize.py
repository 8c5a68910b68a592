"""Expansion of Upsample, and of Resize of opset 10, to today's Resize; many older detectors have these operators."""

from __future__ import annotations

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_MODES = {"bilinear": "linear"}


def upsample(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand to one or two Resize with the same scales; return None if the scales are not known yet.

    The scales are attributes before opset 9.
    """
    composer = NodeComposer(node, scope)
    given = composer.attributes.get("scales")
    scales = scope.constant(node.input[1]) if given is None else given
    if scales is None:
        return None
    mode, value = composer.attributes.get("mode", "nearest"), node.input[0]
    # ONNX Runtime takes the next element if it skips elements, and the previous element if it repeats them.
    steps = {"floor": [max(1.0, each) for each in scales], "ceil": [min(1.0, each) for each in scales]}
    if mode != "nearest":
        steps = {"floor": list(scales)}
    for nearest, factors in steps.items():
        if any(each != 1.0 for each in factors) or nearest == "floor":
            value = composer.add(
                "Resize",
                value,
                "",
                composer.constant(np.array(factors, dtype=np.float32)),
                mode=_MODES.get(mode, mode),
                coordinate_transformation_mode="asymmetric",
                nearest_mode=nearest,
            )
    composer.name(value, node.output[0])
    return composer.nodes
