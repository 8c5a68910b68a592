from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

SaveModel = Callable[..., Path]
RANDOM = np.random.RandomState(7)


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
