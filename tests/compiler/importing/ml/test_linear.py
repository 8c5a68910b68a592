"""Linear models beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from machine_learning_nodes import TRANSFORMS, check, draw_rows, join, make_model

from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
NUMBERS = ("float32", "float64", "int64", "int32")


def weights(count: int, features: int = 5) -> list[float]:
    """Return weights whose sums with the intercepts lie between 0 and 1: PROBIT takes no other sums."""
    return [float(each) / 64 for each in np.random.default_rng(count).integers(-4, 5, count * features)]


def make_classifier(fed: dict[str, np.ndarray], attributes: dict[str, Any], labels: list[int]) -> onnx.ModelProto:
    return make_model("LinearClassifier", fed, attributes | {"classlabels_ints": labels}, ("label", "scores"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", [(5,), (7, 5)])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("intercepts", [[], [0.5], [0.5, 0.25, 0.0]])
def test_regressors(shape: tuple[int, ...], targets: int, intercepts: list[float], cpu: tvm.target.Target) -> None:
    """Intercepts are ignored if their number is not the number of targets."""
    fed = {"x": draw_rows(0, shape)}
    attributes = {"targets": targets, "coefficients": weights(targets)}
    attributes |= {"intercepts": intercepts} if intercepts else {}
    forms = [attributes | {"post_transform": transform} for transform in TRANSFORMS]
    check(join([make_model("LinearRegressor", fed, form) for form in forms]), fed, cpu)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("count", [2, 4])
def test_classifiers(dtype: str, count: int, cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(1, dtype=dtype)}
    attributes = {"coefficients": weights(count), "intercepts": [0.5, 0.25, 0.5, 0.75][:count]}
    forms = [attributes | {"post_transform": transform} for transform in TRANSFORMS]
    check(join([make_classifier(fed, form, [*range(10, 10 + count)]) for form in forms]), fed, cpu)


def test_classifiers_of_one_sum(cpu: tvm.target.Target) -> None:
    """SOFTMAX leaves both scores unchanged."""
    fed, attributes = {"x": draw_rows(2)}, {"coefficients": weights(1), "intercepts": [0.0]}
    forms = [attributes | {"post_transform": transform} for transform in TRANSFORMS[:-1]]
    check(join([make_classifier(fed, form, [7, -3]) for form in forms]), fed, cpu)


def test_one_row(cpu: tvm.target.Target) -> None:
    fed = {"x": draw_rows(3, (5,))}
    check(make_classifier(fed, {"coefficients": weights(3), "intercepts": [0.0, 0.25, 0.0]}, [1, 2, 3]), fed, cpu)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"post_transform": "SQUARE"}, "its transformation of scores is SQUARE"),
        ({"intercepts": [1.0, 2.0, 3.0]}, "it has 3 intercepts for 2 classes"),
        ({"intercepts": [1.0], "post_transform": "PROBIT"}, "leaves one of its two scores undefined"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], said: str) -> None:
    fed = {"x": draw_rows(4)}
    attributes = {"coefficients": weights(6), "intercepts": [0.0, 0.25]} | changes
    with pytest.raises(TvmbuildError, match=said):
        import_model(make_classifier(fed, attributes, [1, 2]), "net")


def test_an_input_of_many_dimensions() -> None:
    fed = {"x": draw_rows(5, (2, 3, 5))}
    with pytest.raises(TvmbuildError, match="its input has 3 dimensions"):
        import_model(make_model("LinearRegressor", fed, {"coefficients": weights(1), "targets": 1}), "net")
