"""Expansion of ReverseSequence, which exporters of TensorFlow put around bidirectional recurrent networks."""

from __future__ import annotations

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of


def reverse_sequence(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand ReverseSequence: reverse each sequence along the time axis, up to its own length.

    Return None if the shape of the data is unknown.
    """
    shape, attributes = scope.shape(node.input[0]), attributes_of(node)
    if shape is None:
        return None
    time, batch = attributes.get("time_axis", 0), attributes.get("batch_axis", 1)
    composer, lengths = Composer(scope, node.name or "ReverseSequence"), scope.constant(node.input[1])
    if lengths is not None and (lengths == shape[time]).all():
        bounds = (np.array([each], dtype=np.int64) for each in (-1, np.iinfo(np.int64).min, time, -1))
        composer.name(composer.add("Slice", node.input[0], *map(composer.constant, bounds)), node.output[0])
        return composer.nodes
    along = [shape[time] if axis == time else 1 for axis in range(len(shape))]
    across = [shape[batch] if axis == batch else 1 for axis in range(len(shape))]
    times = composer.constant(np.arange(shape[time], dtype=np.int64).reshape(along))
    known = composer.add("Cast", node.input[1], to=onnx.TensorProto.INT64)
    ends = composer.add("Reshape", known, composer.constant(np.array(across, dtype=np.int64)))
    last = composer.add("Sub", ends, composer.constant(np.array(1, dtype=np.int64)))
    chosen = composer.add("Where", composer.add("Less", times, ends), composer.add("Sub", last, times), times)
    indices = composer.add("Expand", chosen, composer.constant(np.array(shape, dtype=np.int64)))
    composer.name(composer.add("GatherElements", node.input[0], indices, axis=time), node.output[0])
    return composer.nodes
