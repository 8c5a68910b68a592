"""Expansion of LinearRegressor and LinearClassifier to sums of weighted features."""

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
    """Expand LinearRegressor: multiply the features by the coefficients of each target.

    The intercepts are added if each target has one. Return None if the shape is unknown.
    """
    composer = NodeComposer(node, scope)
    targets, intercepts = composer.attributes.get("targets", 1), composer.attributes.get("intercepts", [])
    sums = add_up(composer, targets, intercepts if len(intercepts) == targets else [])
    if sums is None:
        return None
    composer.name(transform(composer, sums, targets), node.output[0])
    return composer.nodes


def classifier(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand LinearClassifier to the class with the largest sum, and all sums.

    A single sum is the score of the second of two classes. Return None if the shape is unknown.
    """
    composer = NodeComposer(node, scope)
    labels, intercepts = find_labels(composer, "classlabels_ints"), composer.attributes.get("intercepts", [])
    count = len(intercepts)
    if count != labels.count and (count, labels.count) != (1, _TWO):
        raise refuse(node, f"it has {count} intercepts for {labels.count} classes", "export it with one for each class")
    sums = add_up(composer, count, intercepts)
    if sums is None:
        return None
    if count == labels.count:
        write_labels(composer, composer.add("ArgMax", sums, axis=1, keepdims=0), labels.numbers)
        composer.name(transform(composer, sums, count), composer.output(1))
        return composer.nodes
    write_labels(composer, find_above(composer, sums, 0.0), labels.numbers)
    composer.name(write_pair(composer, sums, opposite=False), composer.output(1))
    return composer.nodes


def add_up(composer: NodeComposer, count: int, intercepts: list[float]) -> str | None:
    """Return the rows times the attribute ``coefficients``, [count, features], plus the intercepts.

    Return None if the shape of the input is unknown.
    """
    rows = read_rows(composer)
    if rows is None:
        return None
    weights = np.array(composer.attributes["coefficients"], np.float32).reshape(count, -1).T
    sums = composer.add("MatMul", rows, composer.constant(np.ascontiguousarray(weights)))
    if not any(intercepts):
        return sums
    return composer.add("Add", sums, composer.constant(np.array(intercepts, np.float32)))
