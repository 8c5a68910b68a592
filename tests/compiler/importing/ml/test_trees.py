"""Trees as scikit-learn and LightGBM are exported, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from quantized_nodes import run_built, run_onnx

from tvmbuild.compiler.importing.expand.ml.trees import KINDS
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
FEW = settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
FEATURES = 5
ROWS = 7


class Ensemble:
    """Random trees, node by node, and the leaves' weights."""

    def __init__(self, seed: int, modes: list[str], *, missing: bool = False) -> None:
        self.random, self.modes, self.missing = np.random.default_rng(seed), modes, missing
        self.nodes: dict[str, list[Any]] = {
            name: []
            for name in (
                *("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids"),
                "missing_value_tracks_true",
            )
        }
        self.leaves: list[tuple[int, int]] = []

    def add_tree(self, tree: int, depth: int) -> None:
        self._counted = 0
        self._add_node(tree, depth)

    def _add_node(self, tree: int, depth: int) -> int:
        number, place = self._counted, len(self.nodes["nodeids"])
        self._counted += 1
        is_leaf = depth == 0 or (depth < 3 and self.random.random() < 0.2)
        mode = "LEAF" if is_leaf else str(self.random.choice(self.modes))
        feature = int(self.random.integers(FEATURES))
        split = float(np.float32(self.random.integers(-2, 3) / 2))
        tracks = int(self.missing and not is_leaf and self.random.random() < 0.5)
        values = (tree, number, feature, split, mode, 0, 0, tracks)
        for name, value in zip(self.nodes, values, strict=True):
            self.nodes[name].append(value)
        if is_leaf:
            self.leaves.append((tree, number))
        else:
            self.nodes["truenodeids"][place] = self._add_node(tree, depth - 1)
            self.nodes["falsenodeids"][place] = self._add_node(tree, depth - 1)
        return number

    def attributes(self, of: str, ids: list[int], *, positive: bool, every: bool) -> dict[str, Any]:
        """Return the node's attributes; ``every``: each leaf has weights of all ``ids``, else of one."""
        chosen = [(leaf, each) for leaf in self.leaves for each in (ids if every else [int(self.random.choice(ids))])]
        low = 0.0 if positive else -1.0
        weights = self.random.uniform(low, 1, len(chosen)).astype(np.float32) / (1 + self.nodes["treeids"][-1])
        return {f"nodes_{name}": values for name, values in self.nodes.items()} | {
            f"{of}_treeids": [leaf[0] for leaf, _ in chosen],
            f"{of}_nodeids": [leaf[1] for leaf, _ in chosen],
            f"{of}_ids": [each for _, each in chosen],
            f"{of}_weights": weights.tolist(),
        }


def make_model(operator: str, outputs: list[str], attributes: dict[str, Any], version: int = 3) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x"], outputs, "trees", domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, FEATURES])
    values = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = helper.make_graph([node], "net", [x], values)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def rows(seed: int, *, missing: bool = False) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    values = (random.integers(-4, 5, (ROWS, FEATURES)) / 4).astype(np.float32)
    if missing:
        values[random.random(values.shape) < 0.3] = np.nan
    return {"x": values}


def check(model: onnx.ModelProto, fed: dict[str, np.ndarray], cpu: tvm.target.Target) -> None:
    for got, want in zip(run_built(model, fed, cpu), run_onnx(model, fed), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def draw_trees(draw: st.DrawFn, *, missing: bool) -> Ensemble:
    several = draw(st.booleans())
    modes = [*KINDS] if several else [draw(st.sampled_from(KINDS))]
    trees = Ensemble(draw(st.integers(0, 9999)), modes, missing=missing)
    for tree in range(draw(st.integers(1, 5))):
        trees.add_tree(tree, draw(st.integers(0, 5)))
    return trees


@st.composite
def regressors(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    missing, targets = draw(st.booleans()), draw(st.integers(1, 3))
    trees = draw_trees(draw, missing=missing)
    every = draw(st.booleans())
    attributes = trees.attributes("target", [*range(targets)], positive=False, every=every)
    attributes |= {"n_targets": targets, "aggregate_function": draw(st.sampled_from(["SUM", "AVERAGE"]))}
    if (every or targets == 1) and draw(st.booleans()):
        attributes["base_values"] = [0.5 * (each + 1) for each in range(targets)]
    return make_model("TreeEnsembleRegressor", ["y"], attributes), rows(draw(st.integers(0, 99)), missing=missing)


@settings(
    max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=regressors())
def test_regressors(cpu: tvm.target.Target, drawn: tuple[onnx.ModelProto, dict[str, np.ndarray]]) -> None:
    check(*drawn, cpu)


@st.composite
def classifiers(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    classes = draw(st.integers(2, 4))
    trees = draw_trees(draw, missing=False)
    is_single = classes == 2 and draw(st.booleans())
    ids, positive = [draw(st.integers(0, 1))] if is_single else [*range(classes)], draw(st.booleans())
    every = classes == 2 or not positive or draw(st.booleans())
    attributes = trees.attributes("class", ids, positive=positive, every=every)
    attributes["classlabels_int64s"] = [10 * each - 5 for each in range(classes)]
    attributes["post_transform"] = draw(st.sampled_from(["NONE", "LOGISTIC", "SOFTMAX"]))
    if every and draw(st.booleans()):
        attributes["base_values"] = [0.25] if classes == 2 else [0.25 * each for each in range(classes)]
    return make_model("TreeEnsembleClassifier", ["label", "scores"], attributes), rows(draw(st.integers(0, 99)))


@settings(
    max_examples=12, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=classifiers())
def test_classifiers(cpu: tvm.target.Target, drawn: tuple[onnx.ModelProto, dict[str, np.ndarray]]) -> None:
    check(*drawn, cpu)


@pytest.mark.parametrize("mode", KINDS)
def test_missing_values(mode: str, cpu: tvm.target.Target) -> None:
    trees = Ensemble(3, [mode], missing=True)
    for tree in range(4):
        trees.add_tree(tree, 3)
    attributes = trees.attributes("target", [0], positive=False, every=True) | {"n_targets": 1}
    check(make_model("TreeEnsembleRegressor", ["y"], attributes), rows(5, missing=True), cpu)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"aggregate_function": "MIN"}, "it takes the min of its trees"),
        ({"post_transform": "PROBIT"}, "its transformation of scores is PROBIT"),
    ],
)
def test_forms_that_are_refused(changes: dict[str, str], said: str) -> None:
    trees = Ensemble(3, ["BRANCH_LEQ"])
    trees.add_tree(0, 2)
    attributes = trees.attributes("target", [0], positive=True, every=True) | {"n_targets": 1} | changes
    with pytest.raises(TvmbuildError, match=rf"TreeEnsembleRegressor \(node 'trees'\) of ai\.onnx\.ml .*: {said}"):
        import_model(make_model("TreeEnsembleRegressor", ["y"], attributes), "net")


def test_labels_that_are_texts() -> None:
    trees = Ensemble(3, ["BRANCH_LEQ"])
    trees.add_tree(0, 2)
    attributes = trees.attributes("class", [0], positive=True, every=True) | {"classlabels_strings": ["a", "b"]}
    with pytest.raises(TvmbuildError, match="its labels are texts") as caught:
        import_model(make_model("TreeEnsembleClassifier", ["l", "s"], attributes), "net")
    assert caught.value.hint == "export it with labels that are numbers, or without them"


def test_bases_of_targets_that_some_leaves_lack() -> None:
    """ONNX Runtime adds those to some rows only."""
    trees = Ensemble(3, ["BRANCH_LEQ"])
    trees.add_tree(0, 2)
    attributes = trees.attributes("target", [0, 1], positive=True, every=False)
    attributes |= {"n_targets": 2, "base_values": [1.0, 2.0]}
    with pytest.raises(TvmbuildError, match="its trees leave targets without a value"):
        import_model(make_model("TreeEnsembleRegressor", ["y"], attributes), "net")
