"""QLinearConv, QLinearMatMul and QGemm beside ONNX Runtime, within one step of their results' scales."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import helper
from quantized_nodes import MICROSOFT, Drawn, check, run_built, run_onnx

Case: TypeAlias = tuple[onnx.ModelProto, dict[str, np.ndarray]]
FEW = settings(max_examples=draws(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fit(drawn: Drawn, name: str, products: int, shape: tuple[int, ...] = ()) -> str:
    """Add a scale for sums of that many products: most of these stay in range, but sometimes none does."""
    return drawn.scale(name, shape, most=0.1 * 0.1 * np.sqrt(products) * drawn.pick(1, 60, 60, 200))


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    data, weights = drawn.pick(("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))
    rank, groups = drawn.pick(1, 2, 2, 2, 3), drawn.pick(1, 1, 2)
    inside, outside = drawn.pick(1, 3, 8), drawn.pick(1, 4, 8)
    channels, out = (inside, outside) if groups == 1 else (inside * groups, outside * groups)
    kernel, size = drawn.pick(1, 3), drawn.pick(5, 8)
    names = [drawn.tensor("x", (1, channels, *[size] * rank), data), drawn.scale("xs"), drawn.zero_point("xz", data)]
    per_channel = drawn.pick((), (), (1,), (out,))
    names += [drawn.tensor("w", (out, inside, *[kernel] * rank), weights, known=True), drawn.scale("ws", per_channel)]
    # ONNX Runtime takes a vector of zero points only if all are the same.
    names += [drawn.constant("wz", np.full(per_channel, 0 if weights == "int8" else drawn.pick(0, 128, 255)), weights)]
    names += [fit(drawn, "ys", inside * kernel**rank), drawn.zero_point("yz", data)]
    if drawn.pick(True, False):
        names.append(drawn.constant("b", drawn.random.integers(-9999, 9999, out), "int32"))
    attributes: dict[str, Any] = {"group": groups, "strides": [drawn.pick(1, 2)] * rank}
    if drawn.pick(True, False):
        attributes["pads"] = [drawn.pick(0, 1) for _ in range(2 * rank)]
    else:
        attributes["auto_pad"] = drawn.pick("SAME_UPPER", "VALID")
    return drawn.model(helper.make_node("QLinearConv", names, ["y"], **attributes), drawn.pick(10, 17, 21)), drawn.fed


@given(drawn=convolutions())
@FEW
def test_convolutions(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu, steps=1)


@st.composite
def matrices(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    left, right = drawn.pick(("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))
    rows, inner, columns = drawn.pick(1, 5), drawn.pick(4, 64, 999), drawn.pick(1, 8, 16)
    batch = drawn.pick((), (), (2,))
    names = [drawn.tensor("a", (*batch, rows, inner), left), drawn.scale("as"), drawn.zero_point("az", left)]
    many = drawn.pick((), batch)
    names.append(drawn.tensor("b", (*many, inner, columns), right, known=drawn.pick(True, False)))
    per_column = drawn.pick((), (1,), (*many, 1, columns) if many else (columns,))
    names += [drawn.scale("bs", per_column), drawn.zero_point("bz", right, per_column)]
    names += [fit(drawn, "ys", inner), drawn.zero_point("yz", left)]
    return drawn.model(helper.make_node("QLinearMatMul", names, ["y"]), drawn.pick(10, 17, 21)), drawn.fed


@given(drawn=matrices())
@FEW
def test_matrices(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu, steps=1)


@st.composite
def gemms(draw: st.DrawFn) -> tuple[Case, np.ndarray]:
    drawn = Drawn.start(draw)
    left, right = drawn.pick(("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))
    rows, inner, columns = drawn.pick(1, 5), drawn.pick(4, 64, 999), drawn.pick(1, 8, 16)
    swapped = [drawn.pick(0, 1), drawn.pick(0, 1)]
    shapes = [(rows, inner)[:: -1 if swapped[0] else 1], (inner, columns)[:: -1 if swapped[1] else 1]]
    names = [drawn.tensor("a", shapes[0], left), drawn.scale("as"), drawn.zero_point("az", left)]
    per_column = drawn.pick((), (columns,))
    names += [drawn.tensor("b", shapes[1], right, known=True), drawn.scale("bs", per_column)]
    names.append(drawn.zero_point("bz", right, per_column))
    form = drawn.pick(None, (columns,), (1, columns), (rows, columns), (rows, 1))
    names.append("" if form is None else drawn.constant("c", drawn.random.integers(-9999, 9999, form), "int32"))
    if drawn.pick(True, True, False):
        names += [fit(drawn, "ys", inner), drawn.zero_point("yz", left)]
    attributes: dict[str, Any] = {"alpha": drawn.pick(1.0, 0.5), "transA": swapped[0], "transB": swapped[1]}
    node = helper.make_node("QGemm", names, ["y"], domain=MICROSOFT, **attributes)
    return (drawn.model(node, drawn.pick(13, 21)), drawn.fed), bound_error(drawn, attributes)


def bound_error(drawn: Drawn, attributes: dict[str, Any]) -> np.ndarray:
    """Return the allowed difference of two sums in floats: as many roundings as terms, of the size of all terms.

    Sums of integers are exact, and rounded when they are scaled. Floats are added up if weights do not fit into int8,
    or a factor comes before the product.
    """
    given = {**drawn.fed, **drawn.constants}
    left, right = (given[name].astype(np.float64) for name in "ab")
    left = (left.T if attributes["transA"] else left) - given["az"]
    right = (right.T if attributes["transB"] else right) - given["bz"]
    terms = np.abs(left) @ np.abs(right) + np.abs(given.get("c", 0))
    is_exact = right.min() >= -128 and right.max() <= 127 and attributes["alpha"] == 1
    roundings = 8 + (0 if is_exact else left.shape[1])
    return np.asarray(terms * attributes["alpha"] * given["as"] * given["bs"] * roundings * 2.0**-24)


@given(drawn=gemms())
@FEW
def test_gemms(cpu: tvm.target.Target, drawn: tuple[Case, np.ndarray]) -> None:
    case, allowed = drawn
    check(case, cpu, steps=1, allowed=allowed)


def test_terms_that_cancel(cpu: tvm.target.Target) -> None:
    drawn = Drawn(random=np.random.default_rng(0))
    drawn.fed["a"] = np.full((1, 64), 255, "uint8")
    drawn.constants["b"] = np.where(np.arange(64 * 8).reshape(64, 8) % 2, 127, -127).astype("int8")
    names = ["a", drawn.constant("as", 0.0317), drawn.constant("az", 0, "uint8")]
    names += ["b", drawn.constant("bs", 0.0213), drawn.constant("bz", 0, "int8")]
    sums = 255 * 127 * 64 * (np.arange(8) % 2 * 2 - 1)
    names.append(drawn.constant("c", -sums + 7, "int32"))
    attributes = {"alpha": 1.0, "transA": 0, "transB": 0}
    case = drawn.model(helper.make_node("QGemm", names, ["y"], domain=MICROSOFT, **attributes)), drawn.fed
    (want,) = run_onnx(*case)
    (got,) = run_built(*case, cpu)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    check(case, cpu, steps=1, allowed=bound_error(drawn, attributes))


@pytest.mark.parametrize("of_left", [0, 1])
@pytest.mark.parametrize("of_right", [0, 1])
def test_a_scale_for_each_column(cpu: tvm.target.Target, of_left: int, of_right: int) -> None:
    drawn = Drawn(random=np.random.default_rng(0))
    drawn.fed["a"] = drawn.random.integers(0, 256, (30, 4) if of_left else (4, 30), "uint8")
    drawn.constants["b"] = drawn.random.integers(-128, 128, (6, 30) if of_right else (30, 6), "int8")
    names = ["a", drawn.constant("as", 0.1), drawn.constant("az", 99, "uint8")]
    names += ["b", drawn.scale("bs", (6,)), drawn.constant("bz", [0] * 6, "int8")]
    names += [drawn.constant("c", [-9000, 9000, 0, 500, -500, 1], "int32"), drawn.constant("ys", 1.5), "az"]
    node = helper.make_node("QGemm", names, ["y"], domain=MICROSOFT, transA=of_left, transB=of_right)
    check((drawn.model(node), drawn.fed), cpu, steps=1)


@pytest.mark.parametrize("weight", [-128, 127])
def test_the_longest_sums_saturate(cpu: tvm.target.Target, weight: int) -> None:
    drawn = Drawn(random=np.random.default_rng(0))
    drawn.fed["x"] = np.full((1, 512, 5, 5), 255, "uint8")
    drawn.constants["w"] = np.full((3, 512, 3, 3), weight, "int8")
    names = ["x", drawn.constant("xs", 0.1), drawn.constant("xz", 0, "uint8"), "w", drawn.constant("ws", 0.1)]
    sums = 255 * 128 * 512 * 9 * 0.1 * 0.1
    names += [drawn.constant("wz", 0, "int8"), drawn.constant("ys", sums / 100), drawn.constant("yz", 50, "uint8")]
    check((drawn.model(helper.make_node("QLinearConv", names, ["y"])), drawn.fed), cpu, steps=1)
    drawn.constants["ys"] = np.float32(sums / 1000)
    check((drawn.model(helper.make_node("QLinearConv", names, ["y"], pads=[1] * 4)), drawn.fed), cpu, steps=1)
