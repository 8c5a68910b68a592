"""Upsample, and Resize of opset 10, as today's Resize: many detectors date from that time."""

from __future__ import annotations

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_MODES = {"bilinear": "linear"}


def upsample(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return a Resize with the same scales, which are attributes before opset 9; None if they are not known yet."""
    composer = NodeComposer(node, scope)
    given = composer.attributes.get("scales")
    scales = scope.constant(node.input[1]) if given is None else given
    if scales is None:
        return None
    mode, value = composer.attributes.get("mode", "nearest"), node.input[0]
    # ONNX Runtime takes the next element where it skips some, and the previous one where it repeats them.
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
