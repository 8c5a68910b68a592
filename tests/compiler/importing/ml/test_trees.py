"""Trees exported from scikit-learn and LightGBM, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from machine_learning_nodes import TRANSFORMS, check, draw_rows, join, make_model
from nights import draws
from onnx import helper, numpy_helper

from tvmbuild.compiler.importing.expand.ml.trees import KINDS
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
FEW = settings(
    max_examples=draws(8),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
AGGREGATES = ("SUM", "AVERAGE", "MIN", "MAX")
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
        """Return the node's attributes; with ``every`` each leaf has weights for all ``ids``, else for one."""
        chosen = [(leaf, each) for leaf in self.leaves for each in (ids if every else [int(self.random.choice(ids))])]
        low = 0.0 if positive else -1.0
        weights = self.random.uniform(low, 1, len(chosen)).astype(np.float32) / (1 + self.nodes["treeids"][-1])
        return {f"nodes_{name}": values for name, values in self.nodes.items()} | {
            f"{of}_treeids": [leaf[0] for leaf, _ in chosen],
            f"{of}_nodeids": [leaf[1] for leaf, _ in chosen],
            f"{of}_ids": [each for _, each in chosen],
            f"{of}_weights": weights.tolist(),
        }


def rows(seed: int, dtype: str = "float32", *, missing: bool = False) -> dict[str, np.ndarray]:
    values = draw_rows(seed, (ROWS, FEATURES), dtype)
    if missing:
        values[np.random.default_rng(seed).random(values.shape) < 0.3] = np.nan
    return {"x": values}


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
    attributes = trees.attributes("target", [*range(targets)], positive=False, every=draw(st.booleans()))
    attributes |= {"n_targets": targets, "aggregate_function": draw(st.sampled_from(AGGREGATES))}
    attributes["post_transform"] = draw(st.sampled_from(TRANSFORMS[:-1]))
    if draw(st.booleans()):
        attributes["base_values"] = [0.5 * (each + 1) for each in range(targets)]
    fed = rows(draw(st.integers(0, 99)), draw(st.sampled_from(["float32", "float64"])), missing=missing)
    return make_model("TreeEnsembleRegressor", fed, attributes), fed


@settings(
    max_examples=draws(8),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
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
    every = (classes == 2 and not is_single) or draw(st.booleans())
    attributes = trees.attributes("class", ids, positive=positive, every=every)
    attributes["classlabels_int64s"] = [10 * each - 5 for each in range(classes)]
    attributes["post_transform"] = draw(st.sampled_from(TRANSFORMS[:-1]))
    if draw(st.booleans()):
        count = draw(st.integers(1, 2)) if classes == 2 else classes
        attributes["base_values"] = [0.25 * (each + 1) for each in range(count)]
    fed = rows(draw(st.integers(0, 99)), draw(st.sampled_from(["float32", "float64", "int64"])))
    return make_model("TreeEnsembleClassifier", fed, attributes, ["label", "scores"]), fed


@settings(
    max_examples=draws(12),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
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
    fed = rows(5, missing=True)
    check(make_model("TreeEnsembleRegressor", fed, attributes), fed, cpu)


def make_trees(of: str, ids: list[int], *, positive: bool = True, every: bool = True) -> dict[str, Any]:
    trees = Ensemble(3, ["BRANCH_LEQ"])
    for tree in range(3):
        trees.add_tree(tree, 2)
    return trees.attributes(of, ids, positive=positive, every=every)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_targets_that_some_leaves_lack(aggregate: str, cpu: tvm.target.Target) -> None:
    """ONNX Runtime adds no base to these targets."""
    fed, forms = rows(6), []
    for targets in (1, 2):
        attributes = make_trees("target", [*range(targets)], positive=False, every=False)
        attributes |= {"n_targets": targets, "aggregate_function": aggregate}
        forms += [attributes, attributes | {"base_values": [1.0, 2.0][:targets]}]
    check(join([make_model("TreeEnsembleRegressor", fed, form) for form in forms]), fed, cpu)


@pytest.mark.parametrize("targets", [1, 2])
def test_transformations(targets: int, cpu: tvm.target.Target) -> None:
    """ONNX Runtime transforms a single target only by PROBIT."""
    fed = rows(7)
    attributes = make_trees("target", [*range(targets)])
    attributes |= {"n_targets": targets, "aggregate_function": "AVERAGE"}
    forms = [attributes | {"post_transform": transform} for transform in TRANSFORMS]
    check(join([make_model("TreeEnsembleRegressor", fed, form) for form in forms]), fed, cpu, rtol=1e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ids", [[0], [1], [0, 1]])
@pytest.mark.parametrize("positive", [False, True])
def test_two_classes(ids: list[int], positive: bool, cpu: tvm.target.Target) -> None:
    attributes = make_trees("class", ids, positive=positive) | {"classlabels_int64s": [7, -3]}
    forms = [
        attributes | {"post_transform": transform} | ({"base_values": [0.125, -0.25][:base]} if base else {})
        for transform in TRANSFORMS[:3]
        for base in range(3)
    ]
    fed = rows(8)
    check(join([make_model("TreeEnsembleClassifier", fed, form, ["label", "scores"]) for form in forms]), fed, cpu)


def test_tensors_of_float64(cpu: tvm.target.Target) -> None:
    attributes = make_trees("target", [0]) | {"n_targets": 1}
    for name in ("nodes_values", "target_weights"):
        attributes[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(attributes.pop(name), np.float64))
    fed = rows(10, "float64")
    check(make_model("TreeEnsembleRegressor", fed, attributes), fed, cpu)


def test_splits_that_are_float32_and_data_that_is_not(cpu: tvm.target.Target) -> None:
    """A number just above a split is not rounded down to it."""
    attributes = make_trees("target", [0]) | {"n_targets": 1}
    fed = {name: array + 1e-12 for name, array in rows(11, "float64").items()}
    check(make_model("TreeEnsembleRegressor", fed, attributes), fed, cpu)


@pytest.mark.parametrize(
    ("of", "ids", "changes", "said"),
    [
        ("target", [0], {"post_transform": "SQUARE"}, "its transformation of scores is SQUARE"),
        ("target", [0], {"nodes_modes": ["BRANCH_MEMBER"]}, "its nodes compare by BRANCH_MEMBER"),
        ("class", [0], {"post_transform": "PROBIT"}, "ONNX Runtime leaves one of its two scores undefined"),
    ],
)
def test_forms_that_are_refused(of: str, ids: list[int], changes: dict[str, Any], said: str) -> None:
    attributes = make_trees(of, ids) | {"n_targets": 1, "classlabels_int64s": [0, 1]}
    if "nodes_modes" in changes:
        changes = {"nodes_modes": changes["nodes_modes"] + attributes["nodes_modes"][1:]}
    del attributes["n_targets" if of == "class" else "classlabels_int64s"]
    operator = "TreeEnsembleClassifier" if of == "class" else "TreeEnsembleRegressor"
    with pytest.raises(TvmbuildError, match=rf"{operator} \(node 'node'\) of ai\.onnx\.ml .*: {said}"):
        import_model(make_model(operator, rows(0), attributes | changes, ["y", "z"][: 1 + (of == "class")]), "net")


def test_labels_that_are_texts() -> None:
    attributes = make_trees("class", [0]) | {"classlabels_strings": ["a", "b"]}
    with pytest.raises(TvmbuildError, match="its labels are texts") as caught:
        import_model(make_model("TreeEnsembleClassifier", rows(0), attributes, ["label", "scores"]), "net")
    assert "labels that are numbers" in str(caught.value.hint)


@pytest.mark.parametrize("is_read_by_nobody", [False, True])
def test_texts_that_are_no_output(is_read_by_nobody: bool, cpu: tvm.target.Target) -> None:
    attributes = make_trees("class", [0, 1, 2]) | {"classlabels_strings": ["a", "b", "c"]}
    model = make_model("TreeEnsembleClassifier", rows(0), attributes, ["label", "scores"])
    del model.graph.output[0]
    if is_read_by_nobody:
        model.graph.node.append(helper.make_node("Identity", ["label"], ["nobody"]))
    check(model, rows(0), cpu)


def test_two_classes_that_some_leaves_lack() -> None:
    attributes = make_trees("class", [0, 1], every=False) | {"classlabels_int64s": [0, 1]}
    with pytest.raises(TvmbuildError, match="its trees leave classes without a score"):
        import_model(make_model("TreeEnsembleClassifier", rows(0), attributes, ["label", "scores"]), "net")
