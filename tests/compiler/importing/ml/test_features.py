"""Columns of numbers that are scaled, normalised, filled in, picked and joined, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from machine_learning_nodes import check, draw_rows, join, make_model
from onnx import helper, numpy_helper

from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.onnx_graph import load_model

pytestmark = pytest.mark.compiler
NUMBERS = ("float32", "float64", "int64", "int32")
SHAPES = ((5,), (7, 5))
OFFSET, SCALE = [0.5, -1.0, 0.0, 3.0, 1.5], [2.0, 0.25, -1.0, 0.3, 1.0]


@pytest.mark.parametrize("shape", [*SHAPES, (5, 5, 2)])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_scaler(shape: tuple[int, ...], dtype: str, cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(0, shape, dtype)}
    forms = [{"offset": OFFSET[:count], "scale": SCALE[:count]} for count in (1, 5)]
    check(join([make_model("Scaler", fed, form) for form in forms]), fed, cpu)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_normalizer(shape: tuple[int, ...], dtype: str, cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(1, shape, dtype)}
    fed["x"][0] = 0  # a row of zeros, if there are rows
    check(join([make_model("Normalizer", fed, {"norm": norm}) for norm in ("MAX", "L1", "L2")]), fed, cpu)


def test_squares_that_are_too_small_for_float32(cpu: tvm.target.Target) -> None:
    """The sum of the squares is zero, and the row stays."""
    fed = {"x": np.array([[1e-30, -2e-30], [1e-12, -2e-12]], np.float32)}
    check(make_model("Normalizer", fed, {"norm": "L2"}), fed, cpu)


@pytest.mark.parametrize("shape", [*SHAPES, (5, 5, 2)])
@pytest.mark.parametrize("replaced", [0.25, float("nan")])
def test_imputer(shape: tuple[int, ...], replaced: float, cpu: tvm.target.Target) -> None:
    """With any number of values other than the number of columns, the first value counts."""
    fed = {"x": draw_rows(2, shape)}
    fed["x"][fed["x"] == 0.5] = np.nan
    forms = [{"imputed_value_floats": SCALE[:count], "replaced_value_float": replaced} for count in (1, 3, 5)]
    check(join([make_model("Imputer", fed, form) for form in forms]), fed, cpu)


@pytest.mark.parametrize("count", [1, 5])
def test_imputer_of_integers(count: int, cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(2, dtype="int64")}
    attributes = {"imputed_value_int64s": [7, 8, 9, 10, 1 << 40][:count], "replaced_value_int64": -1}
    check(make_model("Imputer", fed, attributes), fed, cpu)


def test_imputer_without_values_of_its_type() -> None:
    fed = {"x": draw_rows(2, dtype="int64")}
    model = make_model("Imputer", fed, {"imputed_value_floats": [1.0], "replaced_value_float": 0.0})
    with pytest.raises(TvmbuildError, match="it has no values of the type int64"):
        import_model(model, "net")


@pytest.mark.parametrize("attributes", [{}, {"threshold": 0.25}])
def test_binarizer(attributes: dict[str, float], cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(3)}
    check(make_model("Binarizer", fed, attributes), fed, cpu)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 3, 5)])
@pytest.mark.parametrize("places", [[0, 4, 4], [[1], [2]]])
def test_array_feature_extractor(dtype: str, shape: tuple[int, ...], places: list[Any], cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(4, shape, dtype), "places": np.array(places)}
    check(make_model("ArrayFeatureExtractor", fed, {}), fed, cpu)


def test_labels_that_are_picked_from_texts() -> None:
    """skl2onnx writes the labels of naive Bayes, neural networks and neighbours in this form."""
    fed = {"places": np.array([1])}
    model = make_model("ArrayFeatureExtractor", fed, {}, version=1)
    model.graph.node[0].input[:] = ["classes", "places"]
    model.graph.initializer.append(numpy_helper.from_array(np.array(["a", "b"], object), "classes"))
    with pytest.raises(TvmbuildError, match="its labels are texts") as caught:
        import_model(model, "net")
    assert "select_model_inputs_outputs" in str(caught.value.hint)


@pytest.mark.parametrize("lengths", [[5, 2], [3, 2], [6, 1], [1, 4]])
def test_feature_vectorizer(lengths: list[int], cpu: tvm.target.Target) -> None:
    """Rows are cut, or filled up with zeros."""
    fed = {"a": draw_rows(5), "b": draw_rows(6, (7, 2), "float32")}
    check(make_model("FeatureVectorizer", fed, {"inputdimensions": lengths}), fed, cpu)


@pytest.mark.parametrize("shape", [(4,), (3, 2, 2)])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_feature_vectorizer_of_other_shapes(shape: tuple[int, ...], dtype: str, cpu: tvm.target.Target) -> None:
    fed = {"a": draw_rows(7, shape, dtype)}
    check(make_model("FeatureVectorizer", fed, {"inputdimensions": [4]}), fed, cpu)


@pytest.mark.parametrize(
    ("operator", "remedy"), [("CastMap", "tensor"), ("DictVectorizer", "tensor"), ("CategoryMapper", "texts")]
)
def test_what_is_refused(operator: str, remedy: str) -> None:
    fed = {"x": draw_rows(8)}
    with pytest.raises(
        TvmbuildError, match=rf"{operator} \(node 'node'\) of ai.onnx.ml cannot be built: it works"
    ) as caught:
        import_model(make_model(operator, fed, {}), "net")
    assert remedy in str(caught.value.hint)


def test_one_refusal_hides_what_follows() -> None:
    """A node after one that cannot be built is not refused, too."""
    fed = {"x": draw_rows(9)}
    model = make_model("Scaler", fed, {"offset": [0.0], "scale": [2.0]})
    model.graph.node[0].input[:] = ["a"]
    model.graph.node.insert(0, helper.make_node("CastMap", ["x"], ["a"], "first", domain="ai.onnx.ml"))
    with pytest.raises(TvmbuildError) as caught:
        import_model(model, "net")
    assert "Scaler" not in str(caught.value)
    assert "first" in str(caught.value)


def test_a_model_without_an_opset_of_onnx(tmp_path: Path, cpu: tvm.target.Target) -> None:
    """skl2onnx writes a scaler alone in this form."""
    fed = {"x": draw_rows(10)}
    model = make_model("Scaler", fed, {"offset": OFFSET, "scale": SCALE}, version=1)
    del model.opset_import[0]
    onnx.save(model, tmp_path / "net.onnx")
    check(load_model(tmp_path / "net.onnx", "net"), fed, cpu)
