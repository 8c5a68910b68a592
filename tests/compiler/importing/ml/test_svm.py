"""Support vector machines compared with ONNX Runtime."""

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

from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
FEATURES = 5
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def draw_floats(random: np.random.Generator, count: int, low: float = -1.0) -> list[float]:
    return [float(each) for each in random.uniform(low, 1, count).astype(np.float32)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_regressors(kernel: str, cpu: tvm.target.Target) -> None:
    random, fed = np.random.default_rng(0), {"x": draw_rows(0)}
    attributes: dict[str, Any] = {
        "kernel_type": kernel,
        "n_supports": 6,
        "support_vectors": draw_floats(random, 6 * FEATURES),
        "coefficients": draw_floats(random, 6),
        "rho": [0.125],
    }
    forms = [
        attributes | {"kernel_params": [0.25, 0.5, degree], "one_class": one_class}
        for degree in (2.0, 3.0, 4.0)
        for one_class in range(2)
    ]
    check(join([make_model("SVMRegressor", fed, form) for form in forms]), fed, cpu)


@pytest.mark.parametrize("shape", [(5,), (7, 5)])
def test_regressors_without_support_vectors(shape: tuple[int, ...], cpu: tvm.target.Target) -> None:
    """ONNX Runtime does not transform their results."""
    fed = {"x": draw_rows(1, shape)}
    attributes: dict[str, Any] = {"coefficients": draw_floats(np.random.default_rng(1), FEATURES), "rho": [0.25]}
    attributes |= {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]}
    forms = [attributes | {"post_transform": transform} for transform in TRANSFORMS]
    check(join([make_model("SVMRegressor", fed, form) for form in forms]), fed, cpu)


@st.composite
def classifiers(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    random = np.random.default_rng(draw(st.integers(0, 9999)))
    classes, with_probabilities = draw(st.integers(2, 5)), draw(st.booleans())
    counts = [draw(st.integers(1, 4)) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    attributes: dict[str, Any] = {
        "classlabels_ints": [3 * each - 4 for each in range(classes)],
        "kernel_type": draw(st.sampled_from(KERNELS)),
        "kernel_params": [0.25, 0.5, draw(st.sampled_from([2.0, 3.0]))],
        "vectors_per_class": counts,
        "support_vectors": draw_floats(random, sum(counts) * FEATURES),
        "coefficients": draw_floats(random, sum(counts) * (classes - 1), draw(st.sampled_from([-1.0, 0.0]))),
        "rho": draw_floats(random, pairs),
        "post_transform": draw(st.sampled_from(TRANSFORMS[:-1])),
    }
    if with_probabilities:
        attributes |= {"prob_a": draw_floats(random, pairs), "prob_b": draw_floats(random, pairs)}
    fed = {"x": draw_rows(draw(st.integers(0, 99)), dtype=draw(st.sampled_from(["float32", "float64", "int64"])))}
    return make_model("SVMClassifier", fed, attributes, ("label", "scores")), fed


@settings(
    max_examples=draws(12),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(drawn=classifiers())
def test_classifiers(cpu: tvm.target.Target, drawn: tuple[onnx.ModelProto, dict[str, np.ndarray]]) -> None:
    """The probabilities come from an iteration that stops when it is near enough."""
    check(*drawn, cpu)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize("with_probabilities", [False, True])
def test_classifiers_without_support_vectors(
    count: int, low: float, with_probabilities: bool, cpu: tvm.target.Target
) -> None:
    fed = {"x": draw_rows(3)}
    attributes: dict[str, Any] = {"classlabels_ints": [*range(5, 5 + count)]}
    attributes |= {
        "coefficients": (np.array(draw_floats(np.random.default_rng(2), FEATURES * count, low)) / 8).tolist()
    }
    attributes |= {"rho": [0.5, 7.0], "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]}
    attributes |= {"prob_a": [1.0], "prob_b": [0.5]} if with_probabilities else {}
    *models, probit = [
        make_model("SVMClassifier", fed, attributes | {"post_transform": transform}, ("label", "scores"))
        for transform in TRANSFORMS
    ]
    check(join(models), fed, cpu)
    check(probit, fed, cpu, rtol=2e-2)


def test_classifiers_of_one_pair(cpu: tvm.target.Target) -> None:
    random, fed = np.random.default_rng(4), {"x": draw_rows(4)}
    attributes: dict[str, Any] = {"classlabels_ints": [7, -3], "vectors_per_class": [2, 1]}
    attributes |= {"support_vectors": draw_floats(random, 3 * FEATURES), "rho": [0.25]}
    attributes |= {"coefficients": [1.0, 0.5, -1.0], "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    forms = [attributes | {"post_transform": transform} for transform in TRANSFORMS[:-1]]
    check(join([make_model("SVMClassifier", fed, form, ("label", "scores")) for form in forms]), fed, cpu)


def test_a_score_that_is_undefined() -> None:
    random, fed = np.random.default_rng(3), {"x": draw_rows(3)}
    attributes: dict[str, Any] = {"classlabels_ints": [0, 1], "vectors_per_class": [1, 1], "rho": [0.0]}
    attributes |= {"support_vectors": draw_floats(random, 2 * FEATURES), "post_transform": "PROBIT"}
    attributes |= {"coefficients": [1.0, -1.0], "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    with pytest.raises(TvmbuildError, match="leaves one of its two scores undefined"):
        import_model(make_model("SVMClassifier", fed, attributes, ("label", "scores")), "net")
