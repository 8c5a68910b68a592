"""Rewriting of the TreeEnsemble of opset 5 of ai.onnx.ml to an operator of earlier opsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import numpy_helper

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_MEMBER = _MODES.index("BRANCH_MEMBER")
_MAX_BITS = 30
"""The largest member of a set that ONNX Runtime keeps as a bit of a word."""
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""The names of the transformations in ONNX Runtime's order; the specification has SOFTMAX before LOGISTIC."""


def as_opset_3(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the attributes of a TreeEnsemble of opset 5 to the attributes of a TreeEnsembleRegressor.

    A test for membership in a set becomes comparisons.
    """
    writer = _Writer(attributes)
    for tree, root in enumerate(attributes["tree_roots"]):
        writer.add_tree(tree, root)
    nodes, weights = writer.nodes, writer.weights
    return {
        "n_targets": attributes.get("n_targets", 1),
        "aggregate_function": _AGGREGATES[attributes.get("aggregate_function", 1)],
        "post_transform": _TRANSFORMS[attributes.get("post_transform", 0)],
        "nodes_values_as_tensor": numpy_helper.from_array(np.array(nodes.pop("values"), writer.splits.dtype)),
        "target_weights_as_tensor": numpy_helper.from_array(np.array(weights.pop("weights"), writer.leaves.dtype)),
        **{f"nodes_{name}": values for name, values in nodes.items()},
        **{f"target_{name}": values for name, values in weights.items()},
    }


@dataclass
class _Writer:
    """A writer of tree nodes, one after another, with numbers within their tree."""

    attributes: Mapping[str, Any]
    nodes: dict[str, list[Any]] = field(
        default_factory=lambda: {
            name: []
            for name in (
                *("treeids", "nodeids", "featureids", "modes", "values"),
                *("missing_value_tracks_true", "truenodeids", "falsenodeids"),
            )
        }
    )
    weights: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    )

    def __post_init__(self) -> None:
        self.splits, self.leaves, self._modes = (
            numpy_helper.to_array(self.attributes[name]) for name in ("nodes_splits", "leaf_weights", "nodes_modes")
        )
        self._members = self._read_members()

    def add_tree(self, tree: int, root: int) -> None:
        """Write a tree's nodes from a stack; an entry has the places that will get its node's number."""
        self._tree, self._count = tree, 0
        waiting: list[tuple[int, bool, list[tuple[str, int]]]] = [(root, False, [])]
        while waiting:
            place, is_leaf, readers = waiting.pop()
            for name, reader in readers:
                self.nodes[name][reader] = self._count
            if is_leaf:
                self._add_leaf(place)
                continue
            yes, no = self._add_branch(place)
            for kind, told in (("true", yes), ("false", no)):
                target, leaf = (self.attributes[f"nodes_{kind}{what}"][place] for what in ("nodeids", "leafs"))
                waiting.append((target, bool(leaf), told))

    def _add_leaf(self, place: int) -> None:
        for name, value in zip(
            self.weights,
            (self._tree, self._count, self.attributes["leaf_targetids"][place], self.leaves[place]),
            strict=True,
        ):
            self.weights[name].append(value)
        self._add_node(0, "LEAF", 0, 0)

    def _add_branch(self, place: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """Write a node, or several nodes for a test of a set; return the places that wait for its targets' numbers."""
        feature = self.attributes["nodes_featureids"][place]
        tracks = (self.attributes.get("nodes_missing_value_tracks_true") or {place: 0})[place]
        holds: list[int] = []
        fails: list[int] = []
        for comparisons in self._list_alternatives(place):
            for number in fails:
                self.nodes["falsenodeids"][number] = self._count
            fails = []
            for mode, value in comparisons:
                if fails:
                    self.nodes["truenodeids"][fails[-1]] = self._count
                fails.append(self._add_node(feature, mode, value, tracks))
            holds.append(fails[-1])
        return [("truenodeids", number) for number in holds], [("falsenodeids", number) for number in fails]

    def _list_alternatives(self, place: int) -> list[list[tuple[str, Any]]]:
        """Return the alternatives of a node's test, each as a list of comparisons that must all hold.

        If the members of a set are many, large or negative, ONNX Runtime looks for the number without its fraction.
        """
        mode = int(self._modes[place])
        if mode != _MEMBER:
            return [[(_MODES[mode], self.splits[place])]]
        members = self._members[place]
        if len(members) <= _MAX_BITS and all(0 <= each <= _MAX_BITS for each in members):
            return [[("BRANCH_EQ", each)] for each in members]
        return [_cut(each) for each in members]

    def _add_node(self, feature: int, mode: str, value: Any, tracks: int) -> int:
        for name, each in zip(self.nodes, (self._tree, self._count, feature, mode, value, tracks, 0, 0), strict=True):
            self.nodes[name].append(each)
        self._count += 1
        return len(self.nodes["nodeids"]) - 1

    def _read_members(self) -> dict[int, list[Any]]:
        """Return the members of each node's set, by the node's position; in the attribute, NaN ends each set."""
        given = self.attributes.get("membership_values")
        numbers = iter(numpy_helper.to_array(given) if given is not None else ())
        found: dict[int, list[Any]] = {}
        for place in np.flatnonzero(self._modes == _MEMBER).tolist():
            found[place] = []
            for number in numbers:
                if np.isnan(number):
                    break
                found[place].append(number)
        return found


def _cut(member: Any) -> list[tuple[str, Any]]:
    """Return the comparisons that hold if a number without its fraction equals the member."""
    return [
        ("BRANCH_GTE", member) if member > 0 else ("BRANCH_GT", member - 1),
        ("BRANCH_LEQ", member) if member < 0 else ("BRANCH_LT", member + 1),
    ]
