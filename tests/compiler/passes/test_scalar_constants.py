from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model, import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

SaveModel = Callable[..., Path]
RANDOM = np.random.RandomState(7)


@pytest.mark.sampled(2)
@pytest.mark.compiler
@pytest.mark.parametrize("shape", [(1,), (1, 1, 1, 1), (1, 1)])
@pytest.mark.parametrize("first", [False, True])
def test_constants_of_one_element_leave_the_layout_alone(
    shape: tuple[int, ...], first: bool, save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    weights = {"w": RANDOM.uniform(-1, 1, (16, 8, 3, 3)).astype("float32"), "s": np.full(shape, 1.5, "float32")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Sub", ["s", "a"] if first else ["a", "s"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["y"]),
    ]
    weights["v"] = RANDOM.uniform(-1, 1, (16, 16, 1, 1)).astype("float32")
    path = save_model(nodes, weights, (1, 8, 9, 9))
    lowered = lower(import_onnx(path), cpu)
    names = [task.name for task in extract_tasks(lowered)]
    assert [name for name in names if "transpose" in name and "conv2d" not in name] == ["transpose", "transpose"]
    assert "conv2d_subtract" in names
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu())
    data = RANDOM.uniform(-1, 1, (1, 8, 9, 9)).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(data)).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.compiler
def test_a_constant_that_gives_the_result_its_shape_stays(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes = [helper.make_node("Add", ["x", "s"], ["y"])]
    path = save_model(nodes, {"s": np.ones((1, 1, 1), "float32")}, (5,))
    machine_output = import_onnx(path)
    lowered = lower(machine_output, cpu)
    assert [tuple(info.shape) for info in lowered.outputs] == [(1, 1, 5)]
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu())
    assert machine["main"](tvm.runtime.tensor(np.zeros(5, "float32"))).numpy().shape == (1, 1, 5)


@pytest.mark.compiler
@pytest.mark.parametrize(("divisor", "name"), [(6.0, "multiply"), (3e38, "divide")])
def test_a_division_by_a_constant_becomes_a_multiplication(
    divisor: float, name: str, save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    nodes = [helper.make_node("Div", ["x", "s"], ["y"])]
    path = save_model(nodes, {"s": np.array(divisor, "float32")}, (4, 5))
    lowered = lower(import_onnx(path), cpu)
    assert [task.name for task in extract_tasks(lowered)] == [name]
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu())
    data = RANDOM.uniform(-1, 1, (4, 5)).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(data)).numpy(), want, rtol=1e-6)


WHOLE = np.arange(0, 3000, dtype=np.float32)
"""Whole numbers: 41 and 82, multiplied by the reciprocal of 41, give less than one and two."""


def by(operator: str, *more: str, **attributes: Any) -> list[onnx.NodeProto]:
    return [helper.make_node(operator, ["d", *more], ["y"], **attributes)]


DISCONTINUOUS: dict[str, list[onnx.NodeProto]] = {
    **{name: by(name) for name in ("Ceil", "Floor")},
    **{name: by(name, "n") for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod")},
    **{f"Cast-{kind}": by("Cast", to=kind) for kind in (TensorProto.INT64, TensorProto.UINT8, TensorProto.INT32)},
    "Round": [helper.make_node("Sub", ["d", "h"], ["e"]), helper.make_node("Round", ["e"], ["y"])],
    "ArgMax": [
        helper.make_node("Sub", ["n", "d"], ["a"]),
        helper.make_node("Abs", ["a"], ["b"]),
        helper.make_node("Neg", ["b"], ["e"]),
        helper.make_node("ArgMax", ["e"], ["y"], keepdims=0),
    ],
    "Sign": [helper.make_node("Sub", ["d", "n"], ["e"]), helper.make_node("Sign", ["e"], ["y"])],
    "behind views": [
        helper.make_node("Reshape", ["d", "half"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"]),
        helper.make_node("Concat", ["b", "b"], ["g"], axis=0),
        helper.make_node("Clip", ["g", "low"], ["e"]),
        helper.make_node("Mul", ["e", "two"], ["m"]),
        helper.make_node("Floor", ["m"], ["y"]),
    ],
    "one of several": [
        helper.make_node("Exp", ["d"], ["unused"]),
        helper.make_node("Split", ["d"], ["e", "f"], num_outputs=2),
        helper.make_node("Floor", ["e"], ["y"]),
    ],
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", DISCONTINUOUS)
def test_a_division_is_exact_where_its_results_are_rounded(name: str, cpu: tvm.target.Target) -> None:
    weights = {"c": np.float32(41), "n": np.float32(2), "h": np.float32(0.5), "two": np.float32(2)}
    arrays = {**weights, "low": np.float32(0), "half": np.array([2, -1])}
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, WHOLE.shape)
    tensors = [numpy_helper.from_array(np.asarray(value), key) for key, value in arrays.items()]
    nodes = [helper.make_node("Div", ["x", "c"], ["d"]), *DISCONTINUOUS[name]]
    if name == "Mod":
        nodes[-1].attribute.append(helper.make_attribute("fmod", 1))
    graph = helper.make_graph(nodes, "net", [x], [helper.make_empty_tensor_value_info("y")], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    got = build_here(lower(import_model(model, "net"), cpu), cpu)({"x": WHOLE})["y"]
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": WHOLE})[0]
    np.testing.assert_array_equal(got, want)


@pytest.mark.compiler
def test_a_quantised_network_keeps_its_products(cpu: tvm.target.Target) -> None:
    """Every division between its layers is rounded to bytes, so that ties do not matter."""
    weights = {"s": np.float32(0.1), "z": np.uint8(3), "c": np.float32(6)}
    nodes = [
        helper.make_node("Div", ["x", "c"], ["d"]),
        helper.make_node("QuantizeLinear", ["d", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])
    tensors = [numpy_helper.from_array(np.asarray(value), key) for key, value in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], [helper.make_empty_tensor_value_info("y")], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    names = [task.name for task in extract_tasks(lower(import_model(model, "net"), cpu))]
    assert names
    assert not any("divide" in name for name in names)
