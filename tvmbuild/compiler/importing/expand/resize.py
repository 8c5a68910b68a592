"""Upsample, and Resize as opset 10 has it, as the Resize of today: many detectors are of that time."""

from __future__ import annotations

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_MODES = {"bilinear": "linear"}


def upsample(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the Resize with the same scales, attributes before opset 9; None where they are not known yet."""
    composer = NodeComposer(node, scope)
    given = composer.attributes.get("scales")
    scales = scope.constant(node.input[1]) if given is None else given
    if scales is None:
        return None
    mode, value = composer.attributes.get("mode", "nearest"), node.input[0]
    # ONNX Runtime takes the next element where it leaves out some, the one before where it repeats them.
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
