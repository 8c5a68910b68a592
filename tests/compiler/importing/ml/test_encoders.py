"""Encoders that replace numbers by others give ONNX Runtime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from machine_learning_nodes import check, draw_rows, join, make_model
from onnx import numpy_helper

from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
KEYS: dict[str, list[Any]] = {"floats": [0.25, -1.0, 0.25, 0.0], "int64s": [-4, 0, 3, 0]}
VALUES: dict[str, list[Any]] = {"floats": [7.5, float("inf"), -2.0, 0.125], "int64s": [1 << 40, -3, 5, 0]}
DEFAULTS: dict[str, dict[str, Any]] = {"floats": {"default_float": 2.5}, "int64s": {"default_int64": -(1 << 40)}}
TYPES = {"floats": "float32", "int64s": "int64"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 3, 2)])
@pytest.mark.parametrize(
    ("version", "keys", "values"),
    [(4, keys, values) for keys in KEYS for values in VALUES] + [(2, "floats", "int64s"), (2, "int64s", "floats")],
)
def test_label_encoder(shape: tuple[int, ...], version: int, keys: str, values: str, cpu: tvm.target.Target) -> None:
    """The first of equal keys counts; before opset 4, ONNX Runtime cannot map integers to integers."""
    fed = {"x": draw_rows(0, shape, TYPES[keys])}
    attributes = {f"keys_{keys}": KEYS[keys], f"values_{values}": VALUES[values]}
    forms = (attributes, attributes | DEFAULTS[values])
    check(join([make_model("LabelEncoder", fed, form, version=version) for form in forms]), fed, cpu)


@pytest.mark.parametrize("kind", ["float64", "int64", "float32"])
def test_label_encoder_of_tensors(kind: str, cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(1, dtype=kind)}
    numbers = {"keys_tensor": [0, 1, -1], "values_tensor": [5, -6, 7], "default_tensor": [9]}
    tensors = {name: numpy_helper.from_array(np.array(values, kind)) for name, values in numbers.items()}
    without = {name: tensor for name, tensor in tensors.items() if name != "default_tensor"}
    forms = (tensors, without)
    check(join([make_model("LabelEncoder", fed, form, version=4) for form in forms]), fed, cpu)


@pytest.mark.parametrize("version", [2, 4])
def test_keys_that_are_no_numbers(version: int, cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(2)}
    fed["x"][fed["x"] == 0.5] = np.nan
    attributes = {"keys_floats": [0.25, float("nan"), 1.0], "values_int64s": [5, 6, 7]}
    check(make_model("LabelEncoder", fed, attributes, version=version), fed, cpu)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", [(5,), (7, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("categories", [[0, 1, -1], [3, 0, 3, 2, 0]])
def test_one_hot_encoder(shape: tuple[int, ...], dtype: str, categories: list[int], cpu: tvm.target.Target) -> None:
    """Fractions are cut off; of equal categories the last one counts."""
    fed = {"x": draw_rows(3, shape, dtype) * np.array(3, dtype)}
    check(make_model("OneHotEncoder", fed, {"cats_int64s": categories}), fed, cpu)


def test_one_hot_encoder_that_knows_all(cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(3, dtype="int64")}
    check(make_model("OneHotEncoder", fed, {"cats_int64s": [*range(-4, 5)], "zeros": 0}), fed, cpu)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("OneHotEncoder", {"cats_strings": ["a", "b"]}),
        ("LabelEncoder", {"keys_int64s": [1, 2], "values_strings": ["a", "b"]}),
        ("LabelEncoder", {"keys_strings": ["a", "b"], "values_int64s": [1, 2]}),
        ("LabelEncoder", {"classes_strings": ["a", "b"]}),
    ],
)
def test_texts(operator: str, attributes: dict[str, Any]) -> None:
    fed = {"x": draw_rows(4, dtype="int64")}
    version = 1 if "classes_strings" in attributes else 2
    with pytest.raises(TvmbuildError, match=f"{operator}.*cannot be built: it works on texts") as caught:
        import_model(make_model(operator, fed, attributes, version=version), "net")
    assert "numbers in the place of texts" in str(caught.value.hint)
