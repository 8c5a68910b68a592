"""Expansion of ensembles of trees: our kernel finds each row's leaf in each tree; the leaves' weights are added up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tvmbuild.compiler.importing.expand.ml.labels import find_labels
from tvmbuild.compiler.importing.expand.ml.opset_5 import as_opset_3
from tvmbuild.compiler.importing.expand.ml.rows import cast, count_rows, numbers_of, read_rows, to_dtype
from tvmbuild.compiler.importing.expand.ml.scores import Classes, Sums, finish, write_classes
from tvmbuild.compiler.importing.expand.ml.transforms import kind_of
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import OWN, refuse

LEAVES = "TreeLeaves"
"""The name of our own operator, which returns the leaf that each row reaches in each tree.

Its inputs are x [rows, features]; the feature, split, kind and two targets of each node; and the roots.
"""
KINDS = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MISSING = len(KINDS)
"""The number that is added to a node's kind if missing values take the branch of a comparison that holds."""
_TWO = 2
_AGGREGATES = {"AVERAGE": "ReduceMean", "MAX": "ReduceMax", "MIN": "ReduceMin", "SUM": "ReduceSum"}
_NEUTRAL = {"MAX": -1, "MIN": 1}


def regressor(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand TreeEnsembleRegressor: add up the leaves' weights for each target, or take their mean or an extreme.

    Return None if the shape is unknown.
    """
    composer = NodeComposer(node, scope)
    sums = _combine_targets(composer)
    if sums is None:
        return None
    composer.name(finish(composer, replace(sums, value=cast(composer, sums.value, TensorProto.FLOAT))), node.output[0])
    return composer.nodes


def ensemble(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand TreeEnsemble of opset 5, which computes the same as TreeEnsembleRegressor; float64 stays float64.

    Return None if the shape is unknown.
    """
    composer = NodeComposer(node, scope)
    composer.attributes = as_opset_3(composer.attributes)
    sums = _combine_targets(composer)
    if sums is None:
        return None
    kind = numbers_of(composer)
    if kind_of(composer) != "NONE":
        sums = replace(sums, value=cast(composer, sums.value, TensorProto.FLOAT))
    composer.name(cast(composer, finish(composer, sums), kind), node.output[0])
    return composer.nodes


def _combine_targets(composer: NodeComposer) -> Sums | None:
    targets, base = int(composer.attributes.get("n_targets", 1)), _base(composer)
    is_sure = targets == 1 or _always_scores(composer, "target", targets)
    return _combine(composer, "target", Sums("", targets, base if base.size == targets else base[:0]), is_sure=is_sure)


def classifier(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand TreeEnsembleClassifier to the class with the largest sum of leaves' weights, and all scores.

    Return None if the shape is unknown. Raises NodeError for two classes if leaves leave a class without a score.
    """
    composer = NodeComposer(node, scope)
    labels = find_labels(composer, "classlabels_int64s")
    is_positive = bool((_floats(composer, "class_weights") >= 0).all())
    classes = Classes(labels, tuple(sorted(set(composer.attributes["class_ids"]))), is_positive)
    is_sure = _always_scores(composer, "class", labels.count)
    if labels.count == _TWO and not classes.is_single and not is_sure:
        raise refuse(node, "its trees leave classes without a score", "export trees whose leaves have all classes")
    sums = _combine(composer, "class", Sums("", labels.count, _base(composer)), is_sure=is_sure or classes.is_single)
    if sums is None:
        return None
    write_classes(composer, replace(sums, value=cast(composer, sums.value, TensorProto.FLOAT)), classes)
    return composer.nodes


def _always_scores(composer: NodeComposer, of: str, count: int) -> bool:
    """Return whether each class or target has a tree that gives it a score at every leaf.

    ``of`` is the prefix of the attributes: `class` or `target`.
    """
    attributes = composer.attributes
    modes = zip(attributes["nodes_treeids"], attributes["nodes_modes"], strict=True)
    leaves = Counter(tree for tree, mode in modes if mode == "LEAF")
    names = (f"{of}_treeids", f"{of}_nodeids", f"{of}_ids")
    scored = Counter((tree, each) for tree, _, each in set(zip(*(attributes[name] for name in names), strict=True)))
    return all(any(scored[tree, each] == leaves[tree] for tree in leaves) for each in range(count))


@dataclass(frozen=True)
class _Trees:
    """Arrays over the nodes of all trees, one tree after another; both targets of a leaf are the leaf itself."""

    features: np.ndarray
    splits: np.ndarray
    kinds: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    roots: np.ndarray
    places: dict[tuple[int, int], int]
    """The position of a node in the arrays, by the numbers of its tree and of the node."""


def _combine(composer: NodeComposer, of: str, sums: Sums, *, is_sure: bool) -> Sums | None:
    """Aggregate the weights of each row's leaves; return None if the shape is unknown.

    The result has the type in which the trees compute. ``is_sure`` means that some leaf of a row always has a weight,
    or that this does not matter.
    """
    attributes, aggregate = composer.attributes, composer.attributes.get("aggregate_function", "SUM")
    rows = read_rows(composer, numbers_of(composer))
    if rows is None:
        return None
    trees = _read(composer)
    names = (f"{of}_treeids", f"{of}_nodeids", f"{of}_ids")
    given = _floats(composer, f"{of}_weights")
    dtype = np.result_type(given, to_dtype(numbers_of(composer)))
    weights, has = (np.zeros((len(trees.features), sums.count), each) for each in (dtype, np.float32))
    for tree, leaf, column, weight in zip(*(attributes[name] for name in names), given, strict=True):
        weights[trees.places[tree, leaf], column] += weight
        has[trees.places[tree, leaf], column] = 1
    if aggregate in _NEUTRAL and sums.count > 1:
        weights[has == 0] = _NEUTRAL[aggregate] * np.finfo(np.float32).max
    splits = np.result_type(trees.splits, to_dtype(numbers_of(composer)))
    values = cast(composer, rows, onnx.helper.np_dtype_to_tensor_dtype(splits))
    arrays = (trees.features, trees.splits.astype(splits), trees.kinds, trees.yes, trees.no, trees.roots)
    leaves = composer.add(LEAVES, values, *map(composer.constant, arrays), domain=OWN)
    composer.scope.set_type(leaves, TensorProto.INT32, (count_rows(composer), len(trees.roots)))
    found = composer.add("Gather", composer.constant(weights), leaves, axis=0)
    result = composer.reduce(_AGGREGATES[aggregate], found, 1)
    if is_sure:
        return replace(sums, value=result)
    shares = composer.add("Gather", composer.constant(has), leaves, axis=0)
    some = composer.add("Greater", composer.reduce("ReduceMax", shares, 1), composer.constant(np.float32(0)))
    if aggregate in _NEUTRAL:
        result = composer.add("Where", some, result, composer.constant(np.zeros((1, 1), dtype)))
    return replace(sums, value=result, found=some)


def _read(composer: NodeComposer) -> _Trees:
    attributes, node = composer.attributes, composer.node
    places = {
        each: place
        for place, each in enumerate(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    }
    modes = attributes["nodes_modes"]
    unknown = set(modes) - {*KINDS, "LEAF"}
    if unknown:
        raise refuse(node, f"its nodes compare by {', '.join(sorted(unknown))}", "export trees that compare numbers")
    tracks = attributes.get("nodes_missing_value_tracks_true") or [0] * len(places)
    yes, no = ([*range(len(places))] for _ in range(2))
    pairs = zip(
        attributes["nodes_treeids"], attributes["nodes_truenodeids"], attributes["nodes_falsenodeids"], strict=True
    )
    for place, (tree, true, false) in enumerate(pairs):
        if modes[place] != "LEAF":
            yes[place], no[place] = places[tree, true], places[tree, false]
    kinds = [
        0 if mode == "LEAF" else KINDS.index(mode) + MISSING * bool(track)
        for mode, track in zip(modes, tracks, strict=True)
    ]
    reached = {
        target for place, targets in enumerate(zip(yes, no, strict=True)) for target in targets if target != place
    }
    roots = [place for place in range(len(places)) if place not in reached]
    integers = (np.array(each, np.int32) for each in (attributes["nodes_featureids"], kinds, yes, no, roots))
    features, kind, true, false, root = integers
    return _Trees(features, _floats(composer, "nodes_values"), kind, true, false, root, places)


def _floats(composer: NodeComposer, name: str) -> np.ndarray:
    tensor = composer.attributes.get(f"{name}_as_tensor")
    given: Any = composer.attributes.get(name, [])
    return np.array(given, np.float32) if tensor is None else numpy_helper.to_array(tensor)


def _base(composer: NodeComposer) -> np.ndarray:
    return _floats(composer, "base_values").astype(np.float32)
