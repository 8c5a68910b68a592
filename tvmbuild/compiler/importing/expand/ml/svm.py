"""Expansion of support vector machines: a kernel for each sample and support vector, and weighted sums of kernels."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.ml.labels import Labels, find_above, find_labels, write_labels
from tvmbuild.compiler.importing.expand.ml.linear import add_up
from tvmbuild.compiler.importing.expand.ml.rows import count_rows, read_rows
from tvmbuild.compiler.importing.expand.ml.transforms import kind_of, transform, write_pair
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import OWN

COUPLING = "PairwiseCoupling"
"""The name of our own operator, which turns probabilities of pairs of classes into probabilities of classes.

Its input is the probability that one class wins against another, [rows, classes x classes]; its output is [rows,
classes].
"""
_TWO = 2
_HALF = 0.5
_NEAR_ZERO = np.float32(1e-7)


def regressor(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand SVMRegressor: add up the kernels of the support vectors, or weighted features if there are none.

    ONNX Runtime ignores the attribute ``post_transform``. Return None if the shape is unknown.
    """
    composer = NodeComposer(node, scope)
    attributes = composer.attributes
    rho = [float(attributes["rho"][0])]
    if attributes.get("n_supports", 0) > 0:
        kernels = _compare(composer, attributes["n_supports"])
        if kernels is None:
            return None
        weights = composer.constant(np.array(attributes["coefficients"], np.float32).reshape(-1, 1))
        sums = composer.add("Add", composer.add("MatMul", kernels, weights), composer.constant(np.float32(rho[0])))
    else:
        found = add_up(composer, 1, rho)
        if found is None:
            return None
        sums = found
    if attributes.get("one_class", 0):
        above = composer.add("Greater", sums, composer.constant(np.float32(0)))
        doubled = composer.add(
            "Mul", composer.add("Cast", above, to=TensorProto.FLOAT), composer.constant(np.float32(2))
        )
        sums = composer.add("Sub", doubled, composer.constant(np.float32(1)))
    composer.name(sums, node.output[0])
    return composer.nodes


def classifier(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand SVMClassifier to the class that wins the most pairs, and scores of pairs or probabilities of classes.

    Without support vectors, each class has a sum of weighted features. Return None if the shape is unknown.
    """
    composer = NodeComposer(node, scope)
    labels = find_labels(composer, "classlabels_ints")
    if not sum(composer.attributes.get("vectors_per_class", [])):
        return _classify_linearly(composer, labels)
    pairs = _add_up_pairs(composer, labels.count)
    if pairs is None:
        return None
    write_labels(composer, _vote(composer, pairs, labels.count), labels.numbers)
    composer.name(_score(composer, pairs, labels.count), composer.output(1))
    return composer.nodes


def _classify_linearly(composer: NodeComposer, labels: Labels) -> Nodes | None:
    """Write the class with the largest sum, and the scores, to the node's outputs.

    ONNX Runtime adds the first number of ``rho`` to all sums. Of two classes, it chooses the second if the largest sum
    is above zero, or, if no weight is negative, at least a half. Return None if the shape is unknown.
    """
    attributes = composer.attributes
    sums = add_up(composer, labels.count, [attributes["rho"][0]] * labels.count)
    if sums is None:
        return None
    place = composer.add("ArgMax", sums, axis=1, keepdims=0)
    if labels.count == _TWO and not attributes.get("prob_a"):
        positive = min(attributes["coefficients"]) >= 0
        largest = composer.reduce("ReduceMax", sums, 1)
        second = find_above(composer, largest, _HALF if positive else 0.0, or_equal=positive)
        place = composer.add("Max", place, second)
    write_labels(composer, place, labels.numbers)
    composer.name(transform(composer, sums, labels.count), composer.output(1))
    return composer.nodes


def _compare(composer: NodeComposer, count: int) -> str | None:
    """Return the kernel of each row and each of ``count`` support vectors, or None if the shape is unknown."""
    rows = read_rows(composer)
    if rows is None:
        return None
    attributes = composer.attributes
    kernel = attributes.get("kernel_type", "LINEAR")
    gamma, offset, degree = attributes.get("kernel_params") or (0.0, 0.0, 0.0)
    vectors = np.array(attributes["support_vectors"], np.float32).reshape(count, -1)
    if kernel == "RBF":
        apart = composer.add("Sub", composer.unsqueeze(rows, [1]), composer.constant(vectors[None]))
        distance = composer.reduce("ReduceSum", composer.add("Mul", apart, apart), 2)
        return composer.add("Exp", composer.add("Mul", distance, composer.constant(np.float32(-gamma))))
    product = composer.add("MatMul", rows, composer.constant(np.ascontiguousarray(vectors.T)))
    if kernel == "LINEAR":
        return product
    scaled = composer.add("Mul", product, composer.constant(np.float32(gamma)))
    moved = composer.add("Add", scaled, composer.constant(np.float32(offset)))
    if kernel == "POLY":
        return composer.add("Pow", moved, composer.constant(np.float32(degree)))
    return composer.add("Tanh", moved)


def _add_up_pairs(composer: NodeComposer, classes: int) -> str | None:
    """Return the score of each pair of classes, or None if the shape is unknown.

    If the score is above zero, the first class of the pair wins.
    """
    attributes = composer.attributes
    counts = attributes["vectors_per_class"]
    kernels = _compare(composer, sum(counts))
    if kernels is None:
        return None
    owners = np.repeat(np.arange(classes), counts)
    given = np.array(attributes["coefficients"], np.float32)[: (classes - 1) * len(owners)].reshape(classes - 1, -1)
    columns = [
        np.where(owners == first, given[second - 1], np.where(owners == second, given[first], 0))
        for first, second in combinations(range(classes), 2)
    ]
    sums = composer.add("MatMul", kernels, composer.constant(np.stack(columns, 1).astype(np.float32)))
    return composer.add("Add", sums, composer.constant(np.array(attributes["rho"][: len(columns)], np.float32)))


def _vote(composer: NodeComposer, pairs: str, classes: int) -> str:
    """Return the class that wins the most pairs; if there are several, return the first one."""
    both = [*combinations(range(classes), 2)]
    gains = np.zeros((len(both), classes), np.float32)
    lost = np.zeros(classes, np.float32)
    for place, (first, second) in enumerate(both):
        gains[place, first], gains[place, second] = 1, -1
        lost[second] += 1
    won = composer.add("Greater", pairs, composer.constant(np.float32(0)))
    changed = composer.add("MatMul", composer.add("Cast", won, to=TensorProto.FLOAT), composer.constant(gains))
    votes = composer.add("Add", changed, composer.constant(lost))
    return composer.add("ArgMax", votes, axis=1, keepdims=0)


def _score(composer: NodeComposer, pairs: str, classes: int) -> str:
    """Return the scores of the pairs or, with ``prob_a`` and ``prob_b``, the probabilities of the classes.

    For a single pair, ONNX Runtime returns -s and s, or 1 - s and s with SOFTMAX and SOFTMAX_ZERO.
    """
    if composer.attributes.get("prob_a"):
        return transform(composer, _find_probabilities(composer, pairs, classes), classes)
    if classes == _TWO:
        return write_pair(composer, pairs, opposite=kind_of(composer) == "NONE")
    return transform(composer, pairs, classes * (classes - 1) // 2)


def _find_probabilities(composer: NodeComposer, pairs: str, classes: int) -> str:
    """Return the probabilities of the classes that fit the probabilities of the pairs best, as libsvm finds them."""
    count = classes * (classes - 1) // 2
    slope, offset = (np.array(composer.attributes[name][:count], np.float32) for name in ("prob_a", "prob_b"))
    moved = composer.add("Add", composer.add("Mul", pairs, composer.constant(slope)), composer.constant(offset))
    first = composer.add("Sigmoid", composer.add("Neg", moved))
    low, high = composer.constant(_NEAR_ZERO), composer.constant(np.float32(1) - _NEAR_ZERO)
    first = composer.add("Max", composer.add("Min", first, high), low)
    second = composer.add("Sub", composer.constant(np.float32(1)), first)
    places = np.zeros((classes, classes), np.int64)
    for place, (i, j) in enumerate(combinations(range(classes), 2)):
        places[i, j], places[j, i] = place, count + place
    both = composer.add("Concat", first, second, axis=1)
    matrix = composer.add("Gather", both, composer.constant(places.reshape(-1)), axis=1)
    result = composer.add(COUPLING, matrix, domain=OWN)
    composer.scope.set_type(result, TensorProto.FLOAT, (count_rows(composer), classes))
    return result
