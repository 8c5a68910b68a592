"""TreeEnsemble, which has trees in the form of opset 5 of ai.onnx.ml, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from machine_learning_nodes import check, draw_rows, join, make_model
from nights import draws
from onnx import numpy_helper

pytestmark = pytest.mark.compiler
FEATURES = 4
MEMBER = 6
EQUAL, NOT_EQUAL = 4, 5


class Trees:
    """Random trees with branches and leaves in separate lists; a child comes after its parent."""

    def __init__(self, seed: int, modes: list[int], dtype: str, least: int = -2) -> None:
        self.random, self.modes, self.dtype, self.least = np.random.default_rng(seed), modes, dtype, least
        names = ("featureids", "splits", "modes", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
        self.nodes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in (*names, "missing_value_tracks_true")}
        self.leaves: list[int] = []
        self.roots: list[int] = []
        self.members: list[float] = []

    def add_tree(self, depth: int, targets: int) -> None:
        self.roots.append(self._add_branch(depth, targets))

    def attributes(self) -> dict[str, Any]:
        nodes = dict(self.nodes)
        weights = self.random.uniform(-1, 1, len(self.leaves))
        return nodes | {
            "nodes_splits": numpy_helper.from_array(np.array(nodes["nodes_splits"], self.dtype)),
            "nodes_modes": numpy_helper.from_array(np.array(nodes["nodes_modes"], np.uint8)),
            "leaf_weights": numpy_helper.from_array(weights.astype(self.dtype)),
            "leaf_targetids": self.leaves,
            "tree_roots": self.roots,
            "membership_values": numpy_helper.from_array(np.array(self.members, self.dtype)),
        }

    def _add_branch(self, depth: int, targets: int) -> int:
        place, mode = len(self.nodes["nodes_modes"]), int(self.random.choice(self.modes))
        values = (int(self.random.integers(FEATURES)), self.random.integers(-4, 5) / 4, mode, 0, 0, 0, 0)
        for name, value in zip(self.nodes, (*values, int(self.random.random() < 0.5)), strict=True):
            self.nodes[name].append(value)
        if mode == MEMBER:
            self.members += [*np.unique(self.random.integers(self.least, 5, 3)).tolist(), np.nan]
        for kind in ("true", "false"):
            is_leaf = depth == 0 or bool(self.random.random() < 0.2)
            if is_leaf:
                self.leaves.append(int(self.random.integers(targets)))
            child = len(self.leaves) - 1 if is_leaf else self._add_branch(depth - 1, targets)
            self.nodes[f"nodes_{kind}nodeids"][place] = child
            self.nodes[f"nodes_{kind}leafs"][place] = int(is_leaf)
        return place


def feed(seed: int, dtype: str, *, missing: bool = False) -> dict[str, np.ndarray]:
    values = draw_rows(seed, (9, FEATURES), dtype) * np.array(2, dtype)
    if missing:
        values[np.random.default_rng(seed).random(values.shape) < 0.3] = np.nan
    return {"x": values}


@st.composite
def ensembles(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    dtype, targets = draw(st.sampled_from(["float32", "float64"])), draw(st.integers(1, 3))
    modes = [*range(MEMBER + 1)] if draw(st.booleans()) else [draw(st.integers(0, MEMBER))]
    trees = Trees(draw(st.integers(0, 9999)), modes, dtype)
    for _ in range(draw(st.integers(1, 4))):
        trees.add_tree(draw(st.integers(0, 4)), targets)
    attributes = trees.attributes() | {"n_targets": targets, "aggregate_function": draw(st.integers(0, 3))}
    attributes["post_transform"] = draw(st.integers(0, 3))
    fed = feed(draw(st.integers(0, 99)), dtype, missing=draw(st.booleans()))
    return make_model("TreeEnsemble", fed, attributes, version=5), fed


@settings(
    max_examples=draws(12),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(drawn=ensembles())
def test_ensembles(cpu: tvm.target.Target, drawn: tuple[onnx.ModelProto, dict[str, np.ndarray]]) -> None:
    check(*drawn, cpu)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("targets", [1, 2])
def test_aggregates(aggregate: int, targets: int, cpu: tvm.target.Target) -> None:
    trees, fed = Trees(1, [0, 1], "float32"), feed(1, "float32")
    for _ in range(3):
        trees.add_tree(2, targets)
    attributes = trees.attributes() | {"n_targets": targets, "aggregate_function": aggregate}
    forms = [attributes | {"post_transform": transform} for transform in range(5)]
    check(join([make_model("TreeEnsemble", fed, form, version=5) for form in forms]), fed, cpu, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("least", [-2, 0])
def test_sets_of_members(dtype: str, least: int, cpu: tvm.target.Target) -> None:
    """ONNX Runtime takes -0.5 for 0 if a set has a negative number, and otherwise not."""
    trees = Trees(2, [MEMBER, EQUAL, NOT_EQUAL], dtype, least)
    for _ in range(4):
        trees.add_tree(3, 1)
    fed = feed(2, dtype, missing=True)
    check(make_model("TreeEnsemble", fed, trees.attributes() | {"n_targets": 1}, version=5), fed, cpu)


def test_what_has_a_default(cpu: tvm.target.Target) -> None:
    trees = Trees(3, [0], "float32")
    trees.add_tree(2, 1)
    attributes = trees.attributes()
    for name in ("nodes_missing_value_tracks_true", "membership_values"):
        del attributes[name]
    fed = feed(3, "float32")
    check(make_model("TreeEnsemble", fed, attributes | {"n_targets": 1}, version=5), fed, cpu)
