"""Networks of 16-bit floats: sums are computed in float32, and CPUs compute everything in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from drawn_graphs import draw_graphs
from hypothesis import HealthCheck, assume, given, settings
from nights import draws
from onnx import TensorProto, helper, numpy_helper
from vulkan_kernels import lavapipe

from tvmbuild.base.specs import Tolerance
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.float16 import add_up_in_float32, compute_in_float32
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.pipeline import lower
from tvmbuild.preparing.compare import compare

pytestmark = pytest.mark.compiler
LONG = 100_000
WIDE = 2048
Weights = dict[str, tuple[int, ...]]
Case = tuple[str, tuple[int, ...], Weights, dict[str, Any]]

SUMS: dict[str, Case] = {
    **{
        f"Reduce{name}": (f"Reduce{name}", (2, LONG), {}, {"axes": [1]})
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Mean", "SumSquare")
    },
    "ReduceSum": ("ReduceSum", (2, LONG), {}, {}),
    "ReduceProd": ("ReduceProd", (2, 20), {}, {"axes": [1]}),
    "GlobalAveragePool": ("GlobalAveragePool", (1, 3, 250, 400), {}, {}),
    "GlobalLpPool": ("GlobalLpPool", (1, 3, 250, 400), {}, {}),
    "AveragePool": ("AveragePool", (1, 2, 150, 150), {}, {"kernel_shape": [148, 148]}),
    "LpPool": ("LpPool", (1, 2, 150, 150), {}, {"kernel_shape": [148, 148]}),
    "CumSum": ("CumSum", (1, WIDE), {"axis": ()}, {}),
    "MeanVarianceNormalization": ("MeanVarianceNormalization", (1, 3, 250, 400), {}, {}),
    "InstanceNormalization": ("InstanceNormalization", (1, 3, 250, 400), {"s": (3,), "b": (3,)}, {}),
    "LayerNormalization": ("LayerNormalization", (2, LONG), {"s": (LONG,)}, {}),
    "LpNormalization": ("LpNormalization", (2, LONG), {}, {"axis": 1}),
    "Softmax": ("Softmax", (2, LONG), {}, {"axis": 1}),
    "LogSoftmax": ("LogSoftmax", (2, LONG), {}, {"axis": 1}),
    "MatMul": ("MatMul", (3, LONG), {"w": (LONG, 4)}, {}),
    "Gemm": ("Gemm", (3, WIDE), {"w": (5, WIDE), "b": (5,)}, {"transB": 1}),
    "Einsum": ("Einsum", (3, WIDE), {"w": (WIDE, 5)}, {"equation": "ik,kj->ij"}),
    "Conv": ("Conv", (1, 256, 9, 9), {"w": (8, 256, 3, 3)}, {}),
    "Conv of one dimension": ("Conv", (1, 512, 12), {"w": (8, 512, 5)}, {}),
    "Conv of three": ("Conv", (1, 128, 5, 5, 5), {"w": (4, 128, 3, 3, 3)}, {}),
    "Conv in groups": ("Conv", (1, 256, 9, 9), {"w": (8, 128, 3, 3)}, {"group": 2}),
    "Conv depthwise": ("Conv", (1, 8, 40, 40), {"w": (8, 1, 33, 33)}, {"group": 8}),
    "ConvTranspose": ("ConvTranspose", (1, 512, 5, 5), {"w": (512, 4, 3, 3)}, {"strides": [2, 2]}),
    "Sum of many": ("Sum", (2, 30), {f"v{i}": (2, 30) for i in range(300)}, {}),
    "Mean of many": ("Mean", (2, 30), {f"v{i}": (2, 30) for i in range(300)}, {}),
}
FLOATS = frozenset({"Softmax", "LogSoftmax", "LayerNormalization"})
"""Operators with spread inputs: if all are near 4, the results are only rounding errors."""


def make_pair(case: str, kind: int = TensorProto.FLOAT16) -> tuple[onnx.ModelProto, onnx.ModelProto, np.ndarray]:
    """Return the operator in 16 bits, the same in float32 with exactly the same numbers, and its input."""
    operator, shape, weights, attributes = SUMS[case]
    narrow = helper.tensor_dtype_to_np_dtype(kind)
    random = np.random.default_rng(0)
    low = -4.0 if operator in FLOATS or "Normalization" in operator else 3.0
    data = random.uniform(low, 5, shape).astype(narrow)
    if operator == "ReduceProd":
        data = data / 4
    arrays = {
        name: np.array(1, np.int64) if name == "axis" else random.uniform(0.002, 0.004, size).astype(narrow)
        for name, size in weights.items()
    }
    models = []
    for dtype in (kind, TensorProto.FLOAT):
        to = helper.tensor_dtype_to_np_dtype(dtype)
        constants = [
            numpy_helper.from_array(array if array.dtype == np.int64 else array.astype(to), name)
            for name, array in arrays.items()
        ]
        graph = helper.make_graph(
            [helper.make_node(operator, ["x", *arrays], ["y"], **attributes)],
            "net",
            [helper.make_tensor_value_info("x", dtype, shape)],
            [helper.make_tensor_value_info("y", dtype, None)],
            constants,
        )
        models.append(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    return models[0], models[1], data


def compute(model: onnx.ModelProto, data: np.ndarray, target: tvm.target.Target) -> np.ndarray:
    lowered = lower(import_model(model, "net", for_gpu=is_gpu(target)), target)
    return build_here(lowered, target)({"x": data})["y"]


def expect(model: onnx.ModelProto, data: np.ndarray) -> np.ndarray:
    """Compute the float32 model with ONNX Runtime."""
    result: np.ndarray = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(None, {"x": data.astype(np.float32)})[0]
    return result


def check_sum(case: str, target: tvm.target.Target) -> None:
    narrow, wide, data = make_pair(case)
    got, want = compute(narrow, data, target), expect(wide, data)
    assert got.dtype == np.float16
    with np.errstate(over="ignore"):
        rounded = want.astype(np.float16)
    np.testing.assert_array_equal(np.isinf(got), np.isinf(rounded))
    assert np.isfinite(want).all()
    np.testing.assert_allclose(got, rounded, rtol=4e-3, atol=2e-3 * float(np.abs(want).max()))


TARGETS = [pytest.param("cpu"), pytest.param("gpu", marks=pytest.mark.vulkan)]


def make_target(where: str, cpu: tvm.target.Target) -> tvm.target.Target:
    return cpu if where == "cpu" else lavapipe()


@pytest.mark.parametrize("where", TARGETS)
@pytest.mark.parametrize("case", ["Conv", "GlobalLpPool", "MatMul", "ReduceL2", "ReduceMean"])
def test_a_long_sum_is_exact(case: str, where: str, cpu: tvm.target.Target) -> None:
    check_sum(case, make_target(where, cpu))


@pytest.mark.nightly
@pytest.mark.parametrize("where", TARGETS)
@pytest.mark.parametrize("case", SUMS)
def test_every_long_sum_is_exact(case: str, where: str, cpu: tvm.target.Target) -> None:
    check_sum(case, make_target(where, cpu))


def test_a_cpu_computes_in_float32() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
        [numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float16), "w")],
    )
    imported = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net")
    assert [info.dtype for info in (*imported.inputs, *imported.outputs)] == ["float16", "float16"]
    types = [str(call.ty.dtype) for call in operator_calls(imported.mod, "relax.")]
    assert types[-1] == "float16"
    assert set(types[:-1]) == {"float32"}


def test_a_model_without_16_bit_floats_stays_as_it_is() -> None:
    _, wide, _ = make_pair("MatMul")
    assert compute_in_float32(wide) is wide
    assert add_up_in_float32(wide) is wide


def test_constants_that_are_listed_as_inputs_stay_constants() -> None:
    model, _, data = make_pair("Gemm")
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    model.graph.input.extend(_info(name, TensorProto.FLOAT16, array.shape) for name, array in arrays.items())
    imported = import_model(model, "net")
    assert [info.shape for info in imported.inputs] == [data.shape]


def test_subgraphs_casts_and_outputs_in_the_middle(cpu: tvm.target.Target) -> None:
    half = TensorProto.FLOAT16
    branch = [
        helper.make_graph([helper.make_node(kind, ["a", "s"], ["r"])], kind, [], [_info("r", half, (3,))])
        for kind in ("Add", "Sub")
    ]
    nodes = [
        helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(np.array(1.5, np.float16))),
        helper.make_node("Mul", ["x", "s"], ["a"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1]),
        helper.make_node("Cast", ["wide"], ["h"], to=half),
        helper.make_node("Sub", ["h", "x"], ["z"]),
        helper.make_node("ConstantOfShape", ["n"], ["v"], value=numpy_helper.from_array(np.array([2], np.float16))),
    ]
    values = {"c": np.array(True), "n": np.array([2], np.int64)}
    outputs = [_info(name, half, (2,) if name == "v" else (3,)) for name in ("y", "a", "z", "v", "x")]
    inputs = [_info("x", half, (3,)), _info("wide", TensorProto.FLOAT, (3,))]
    constants = [numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    data: dict[str, np.ndarray] = {
        "x": np.array([1, 2, 3], np.float16),
        "wide": np.array([1.0001, 70000, -3], np.float32),
    }
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in outputs]
    want = dict(zip(names, session.run(names, data), strict=True))
    with np.errstate(over="ignore"):
        want["z"] = data["wide"].astype(np.float16) - data["x"]  # ONNX Runtime omits this Cast
    got = build_here(lower(import_model(model, "net"), cpu), cpu)(data)
    for name in names:
        assert got[name].dtype == np.float16
        np.testing.assert_array_equal(got[name], want[name])


def _info(name: str, kind: int, shape: tuple[int, ...] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def narrow_down(model: onnx.ModelProto) -> onnx.ModelProto:
    """Convert the float32 model to float16."""
    result = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in result.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for value in (*result.graph.input, *result.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    del result.graph.value_info[:]
    return result


@pytest.mark.nightly
@pytest.mark.parametrize("where", TARGETS)
def test_drawn_graphs_in_float16(where: str, cpu: tvm.target.Target) -> None:
    target = make_target(where, cpu)

    @given(draw_graphs())
    @settings(deadline=None, max_examples=draws(8), suppress_health_check=list(HealthCheck), print_blob=True)
    def run(model: onnx.ModelProto) -> None:
        assume(not any(node.op_type in {"Equal", "Cast"} for node in model.graph.node))
        shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
        data = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float16)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [each.name for each in model.graph.output]
        want = dict(zip(names, session.run(names, {"x": data.astype(np.float32)}), strict=True))
        lowered = lower(import_model(narrow_down(model), "net", for_gpu=is_gpu(target)), target)
        got = {name: value.astype(want[name].dtype) for name, value in build_here(lowered, target)({"x": data}).items()}
        assert compare(got, want, Tolerance(0.0, 0.0, 0.03)).problem is None

    run()
