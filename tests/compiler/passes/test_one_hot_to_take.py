from __future__ import annotations

from pathlib import Path

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
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

RANDOM = np.random.RandomState(3)
ROWS, WIDTH = 7, 24
NUMBERS = np.array([[0, 6, 3, 3, 1, -1, 7, 2**31 - 1, -(2**31), 5]], "int32")
TABLE = RANDOM.uniform(-1, 1, (ROWS, WIDTH)).astype("float32")
PER_ROW = [
    helper.make_node("Add", ["taken", "bias"], ["a"]),
    helper.make_node("Tanh", ["a"], ["b"]),
    helper.make_node("Mul", ["half", "b"], ["c"]),
    helper.make_node("Add", ["c", "a"], ["y"]),
]


def save(path: Path, after: list[onnx.NodeProto], *, counted: np.ndarray, table: np.ndarray = TABLE) -> Path:
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
        helper.make_node("Equal", ["counted", "u"], ["e"]),
        helper.make_node("Cast", ["e"], ["h"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["h", "table"], ["taken" if after else "y"]),
        *after,
    ]
    constants = {
        "axes": np.array([2]),
        "counted": counted,
        "table": table,
        "bias": RANDOM.uniform(-1, 1, WIDTH).astype("float32"),
        "half": np.array(0.5, "float32"),
        "other": RANDOM.uniform(-1, 1, (NUMBERS.size, 1)).astype("float32"),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT32, NUMBERS.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (*NUMBERS.shape, WIDTH))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def check(path: Path, cpu: tvm.target.Target) -> list[str]:
    """Compare with ONNX Runtime; return the Tasks' names."""
    lowered = lower(import_onnx(path), cpu)
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu())
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": NUMBERS})[0]
    got = machine["main"](tvm.runtime.tensor(NUMBERS)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return [task.name for task in extract_tasks(lowered)]


@pytest.mark.compiler
@pytest.mark.parametrize("after", [[], PER_ROW])
def test_rows_are_taken_and_what_is_done_to_each_is_done_when_the_package_is_built(
    after: list[onnx.NodeProto], tmp_path: Path, cpu: tvm.target.Target
) -> None:
    names = check(save(tmp_path / "m.onnx", after, counted=np.arange(ROWS, dtype="int32")), cpu)
    assert names[-1] == "take"
    assert not [name for name in names if "matmul" in name or "tanh" in name]


@pytest.mark.compiler
def test_what_depends_on_the_place_is_computed_at_its_place(tmp_path: Path, cpu: tvm.target.Target) -> None:
    after = [helper.make_node("Add", ["taken", "other"], ["y"])]
    names = check(save(tmp_path / "m.onnx", after, counted=np.arange(ROWS, dtype="int32")), cpu)
    assert names[-2:] == ["take", "add"]


@pytest.mark.compiler
@pytest.mark.parametrize("counted", [[0, 1, 2, 3, 4, 6, 5], [1, 2, 3, 4, 5, 6, 7]])
def test_other_comparisons_stay_products(counted: list[int], tmp_path: Path, cpu: tvm.target.Target) -> None:
    names = check(save(tmp_path / "m.onnx", [], counted=np.array(counted, "int32")), cpu)
    assert any("matmul" in name for name in names)


@pytest.mark.compiler
def test_infinite_weights_stay_a_product(tmp_path: Path, cpu: tvm.target.Target) -> None:
    """A one-hot product gives NaN at these weights, because zero times infinity is NaN."""
    table = TABLE.copy()
    table[2, 3] = np.inf
    path = save(tmp_path / "m.onnx", [], counted=np.arange(ROWS, dtype="int32"), table=table)
    names = [task.name for task in extract_tasks(lower(import_onnx(path), cpu))]
    assert any("matmul" in name for name in names)
