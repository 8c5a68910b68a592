"""Ensembles of trees: the leaves that each row comes to, found by a kernel of ours, and sums of their weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tvmbuild.compiler.importing.expand.ml.scores import Scores, write_classes, write_scores
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import OWN, refuse

LEAVES = "TreeLeaves"
"""Our own operator: x [rows, features], and of each node feature, split, kind, where to go, and the trees' roots."""
KINDS = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MISSING = len(KINDS)
"""Added to a kind whose missing values go where the comparison holds."""
_TWO = 2
_AGGREGATES = {"AVERAGE": "ReduceMean", "SUM": "ReduceSum"}


def regressor(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Add up the weights of the leaves, for each target."""
    composer = NodeComposer(node, scope)
    targets = int(composer.attributes.get("n_targets", 1))
    sums = _add_up(composer, "target", targets)
    if sums is None:
        return None
    if targets > 1 and _base(composer).size and not _always_scores(composer, "target", targets):
        # ONNX Runtime adds the base to those alone that a row's leaves have.
        raise refuse(node, "its trees leave targets without a value", "export trees whose leaves have all targets")
    write_scores(composer, sums, _base(composer), node.output[0])
    return composer.nodes


def classifier(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Add up the weights of the leaves, for each class; the class with the most of them, and all scores."""
    composer = NodeComposer(node, scope)
    labels = composer.attributes.get("classlabels_int64s")
    count = len(labels or composer.attributes["classlabels_strings"])
    if labels is None and composer.output(0):
        raise refuse(node, "its labels are texts", "export it with labels that are numbers, or without them")
    sums = _add_up(composer, "class", count)
    if sums is None:
        return None
    is_positive = bool((_floats(composer, "class_weights") >= 0).all())
    scores = Scores(_base(composer), labels, tuple(sorted(set(composer.attributes["class_ids"]))), is_positive)
    needs_all = count == _TWO or not is_positive or bool(scores.base.size)
    if not scores.is_single and needs_all and not _always_scores(composer, "class", count):
        raise refuse(node, "its trees leave classes without a score", "export trees whose leaves have all classes")
    write_classes(composer, sums, scores)
    return composer.nodes


def _always_scores(composer: NodeComposer, of: str, count: int) -> bool:
    """Say whether for each class, or target, there is a tree that gives it a score whichever leaf is reached."""
    attributes = composer.attributes
    modes = zip(attributes["nodes_treeids"], attributes["nodes_modes"], strict=True)
    leaves = Counter(tree for tree, mode in modes if mode == "LEAF")
    names = (f"{of}_treeids", f"{of}_nodeids", f"{of}_ids")
    scored = Counter((tree, each) for tree, _, each in set(zip(*(attributes[name] for name in names), strict=True)))
    return all(any(scored[tree, each] == leaves[tree] for tree in leaves) for each in range(count))


@dataclass(frozen=True)
class _Trees:
    """Arrays by node, all trees' one after another; a leaf leads to itself."""

    features: np.ndarray
    splits: np.ndarray
    kinds: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    roots: np.ndarray
    places: dict[tuple[int, int], int]
    """Tree and node → where it is in the arrays."""


def _add_up(composer: NodeComposer, of: str, count: int) -> str | None:
    attributes, node = composer.attributes, composer.node
    aggregate = attributes.get("aggregate_function", "SUM")
    if aggregate not in _AGGREGATES:
        raise refuse(node, f"it takes the {aggregate.lower()} of its trees", "export trees that are added up")
    if composer.known_shape(0) is None:
        return None
    trees = _read(composer)
    weights = np.zeros((len(trees.features), count), _floats(composer, f"{of}_weights").dtype)
    names = (f"{of}_treeids", f"{of}_nodeids", f"{of}_ids")
    ids = zip(*(attributes[name] for name in names), _floats(composer, f"{of}_weights"), strict=True)
    for tree, leaf, column, weight in ids:
        weights[trees.places[tree, leaf], column] += weight
    values = composer.add("Cast", node.input[0], to=onnx.helper.np_dtype_to_tensor_dtype(trees.splits.dtype))
    arrays = (trees.features, trees.splits, trees.kinds, trees.yes, trees.no, trees.roots)
    leaves = composer.add(LEAVES, values, *map(composer.constant, arrays), domain=OWN)
    found = composer.add("Gather", composer.constant(weights), leaves, axis=0)
    if aggregate == "AVERAGE" or composer.scope.opset < 13:
        result = composer.add(_AGGREGATES[aggregate], found, axes=[1], keepdims=0)
    else:
        result = composer.add("ReduceSum", found, composer.integers(1), keepdims=0)
    return composer.add("Cast", result, to=TensorProto.FLOAT) if weights.dtype != np.float32 else result


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
