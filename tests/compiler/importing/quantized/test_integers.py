"""ConvInteger, MatMulInteger and com.microsoft's variants of the latter: integers are exact for any size."""

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
from quantized_nodes import BYTES, MICROSOFT, Drawn, check, run_built

Case: TypeAlias = tuple[onnx.ModelProto, dict[str, np.ndarray]]
FEW = settings(max_examples=draws(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SIGNS = (("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    data = "uint8"  # ONNX Runtime's own operator lacks int8
    rank, groups = drawn.pick(1, 2, 2, 3), drawn.pick(1, 1, 2)
    channels, out, kernel = drawn.pick(2, 8, 16), drawn.pick(2, 8, 16), drawn.pick(1, 3)
    size = [drawn.pick(5, 8, 9) for _ in range(rank)]
    weights = drawn.pick(*BYTES)
    names = [drawn.tensor("x", (1, channels, *size), data)]
    names.append(drawn.tensor("w", (out, channels // groups, *[kernel] * rank), weights, known=drawn.pick(True, False)))
    names.append(drawn.zero_point("xz", data) if drawn.pick(True, False) else "")
    names.append(drawn.zero_point("wz", weights) if drawn.pick(True, False) else "")
    attributes: dict[str, Any] = {"group": groups, "strides": [drawn.pick(1, 2)] * rank}
    attributes["dilations"] = [drawn.pick(1, 2)] * rank if min(size) > 2 * kernel - 1 else [1] * rank
    if drawn.pick(True, False):
        attributes["pads"] = [drawn.pick(0, 1) for _ in range(2 * rank)]
    else:
        attributes |= {"auto_pad": drawn.pick("SAME_UPPER", "SAME_LOWER", "VALID"), "dilations": [1] * rank}
    while not names[-1]:
        names.pop()
    return drawn.model(helper.make_node("ConvInteger", names, ["y"], **attributes), drawn.pick(10, 17)), drawn.fed


@given(drawn=convolutions())
@FEW
def test_convolutions(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu)


@pytest.mark.parametrize("kind", BYTES)
def test_a_zero_point_for_each_kernel(cpu: tvm.target.Target, kind: str) -> None:
    random = np.random.default_rng(0)
    limits = np.iinfo(kind)
    fed = {"x": random.integers(limits.min, limits.max, (1, 3, 6, 6), kind, endpoint=True)}
    weights = random.integers(limits.min, limits.max, (4, 3, 3, 3), kind, endpoint=True)
    zeros = random.integers(limits.min, limits.max, 4, kind, endpoint=True)
    drawn = make_model("ConvInteger", fed, {"w": weights, "z": np.array(3, kind), "v": zeros}, ["x", "w", "z", "v"])
    (got,) = run_built(drawn, fed, cpu)
    data, kernels = fed["x"].astype(int) - 3, weights.astype(int) - zeros.reshape(-1, 1, 1, 1).astype(int)
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (2, 3))
    np.testing.assert_array_equal(got, np.einsum("nchwij,ocij->nohw", windows, kernels))
    assert got.dtype == np.int32


def make_model(operator: str, fed: dict[str, Any], constants: dict[str, Any], names: list[str]) -> onnx.ModelProto:
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in fed.items()
    ]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    node = helper.make_node(operator, names, ["y"])
    graph = helper.make_graph([node], "node", values, [helper.make_empty_tensor_value_info("y")], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_sums_that_floats_cannot_hold(cpu: tvm.target.Target) -> None:
    inner = 40_001
    fed = {"x": np.full((1, inner), 255, "uint8")}
    weights = np.full((inner, 3), -128, "int8")
    weights[0, 0] += 1
    model = make_model("MatMulInteger", fed, {"w": weights}, ["x", "w"])
    (got,) = run_built(model, fed, cpu)
    assert got.tolist() == [[-255 * 128 * inner + 255, -255 * 128 * inner, -255 * 128 * inner]]
    assert not np.array_equal(got.astype(np.float32), got)


@st.composite
def matrices(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    left, right = drawn.pick(*SIGNS)
    rows, inner, columns = drawn.pick(1, 5), drawn.pick(4, 64, 999), drawn.pick(1, 8, 16)
    batch = drawn.pick((), (), (2,))
    names = [drawn.tensor("a", (*batch, rows, inner), left)]
    many = drawn.pick((), batch)
    per_column = drawn.pick((), (1,), (*many, 1, columns) if many else (columns,))
    names.append(drawn.tensor("b", (*many, inner, columns), right, known=drawn.pick(True, False)))
    names.append(drawn.zero_point("az", left, drawn.pick((), (1,))) if drawn.pick(True, False) else "")
    names.append(drawn.zero_point("bz", right, per_column) if drawn.pick(True, False) else "")
    return drawn.model(helper.make_node("MatMulInteger", names, ["y"]), drawn.pick(10, 17)), drawn.fed


@given(drawn=matrices())
@FEW
def test_matrices(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu)


@pytest.mark.parametrize("vector", [0, 1])
def test_a_vector_with_a_zero_point_stays_one(cpu: tvm.target.Target, vector: int) -> None:
    random = np.random.default_rng(0)
    left = random.integers(0, 256, (3, 4) if vector else (4,), "uint8")
    right = random.integers(0, 256, (4,) if vector else (4, 5), "uint8")
    zeros = {"az": np.array([7], "uint8"), "bz": np.array([9], "uint8")}
    model = make_model("MatMulInteger", {"a": left, "b": right}, zeros, ["a", "b", "az", "bz"])
    (got,) = run_built(model, {"a": left, "b": right}, cpu)
    np.testing.assert_array_equal(got, (left.astype(int) - 7) @ (right.astype(int) - 9))


@st.composite
def scaled(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    rows, inner, columns = drawn.pick(1, 5), drawn.pick(4, 64), drawn.pick(1, 8, 16)
    is_dynamic, right = drawn.pick(True, False), drawn.pick(*BYTES)
    per = drawn.pick((), (columns,))
    b = [drawn.tensor("b", (inner, columns), right, known=True), drawn.scale("bs", per)]
    zero = drawn.zero_point("bz", right, per) if drawn.pick(True, False) else ""
    bias = drawn.scale("c", (columns,), most=3.0) if drawn.pick(True, False) else ""
    if is_dynamic:
        drawn.fed["a"] = drawn.random.uniform(-1, 3, (rows, inner)).astype("float32")
        names, operator = ["a", *b, zero, bias], "DynamicQuantizeMatMul"
    else:
        left = "uint8" if right == "uint8" else drawn.pick(*BYTES)
        own = [drawn.tensor("a", (rows, inner), left), b[0], drawn.scale("as"), b[1]]
        names, operator = [*own, drawn.zero_point("az", left), zero, bias], "MatMulIntegerToFloat"
    while not names[-1]:
        names.pop()
    return drawn.model(helper.make_node(operator, names, ["y"], domain=MICROSOFT), 17), drawn.fed


@given(drawn=scaled())
@FEW
def test_products_that_are_scaled(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu, steps=1)
