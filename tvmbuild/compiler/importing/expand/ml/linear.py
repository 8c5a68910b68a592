"""Sums of weighted features: LinearRegressor and LinearClassifier."""

from __future__ import annotations

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.ml.labels import find_above, find_labels, write_labels
from tvmbuild.compiler.importing.expand.ml.rows import read_rows
from tvmbuild.compiler.importing.expand.ml.transforms import transform, write_pair
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import refuse

_TWO = 2


def regressor(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Multiply the features by each target's coefficients and add its intercept, where all targets have one."""
    composer = NodeComposer(node, scope)
    targets, intercepts = composer.attributes.get("targets", 1), composer.attributes.get("intercepts", [])
    sums = add_up(composer, targets, intercepts if len(intercepts) == targets else [])
    if sums is None:
        return None
    composer.name(transform(composer, sums, targets), node.output[0])
    return composer.nodes


def classifier(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Name the class with the largest sum, and all sums.

    As in ONNX Runtime there are as many sums as intercepts;
    of one alone both of two classes get a score, s and 1 - s, which nothing transforms.
    """
    composer = NodeComposer(node, scope)
    labels, intercepts = find_labels(composer, "classlabels_ints"), composer.attributes.get("intercepts", [])
    if not intercepts:
        raise refuse(node, "it has no intercepts, and ONNX Runtime takes none for no class", "export it with intercepts")
    count = len(intercepts)
    sums = add_up(composer, count, intercepts)
    if sums is None:
        return None
    if count > 1:
        write_labels(composer, composer.add("ArgMax", sums, axis=1, keepdims=0), labels.numbers)
        composer.name(transform(composer, sums, count), composer.output(1))
        return composer.nodes
    numbers = labels.numbers if labels.numbers is None or labels.count == _TWO else (0, 1)
    write_labels(composer, find_above(composer, sums, 0.0), numbers)
    is_pair = labels.count == _TWO
    scores = write_pair(composer, sums, opposite=False) if is_pair else transform(composer, sums, 1)
    composer.name(scores, composer.output(1))
    return composer.nodes


def add_up(composer: NodeComposer, count: int, intercepts: list[float]) -> str | None:
    """Return the rows times the attribute ``coefficients``, [count, features]; None where the shape is not known."""
    rows = read_rows(composer)
    if rows is None:
        return None
    weights = np.array(composer.attributes["coefficients"], np.float32).reshape(count, -1).T
    sums = composer.add("MatMul", rows, composer.constant(np.ascontiguousarray(weights)))
    if not any(intercepts):
        return sums
    return composer.add("Add", sums, composer.constant(np.array(intercepts, np.float32)))
