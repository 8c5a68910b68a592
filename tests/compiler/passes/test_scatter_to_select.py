"""ScatterND of one row, with transposes around it as exporters write a cache: one pass with the same numbers."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.calls import called_functions
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler

CACHE = (2, 3, 10, 8)
BACK: dict[tuple[int, ...], tuple[int, ...]] = {
    (2, 0, 1, 3): (1, 2, 0, 3),
    (0, 1, 2, 3): (0, 1, 2, 3),
    (1, 0, 2, 3): (1, 0, 2, 3),
    (3, 2, 1, 0): (3, 2, 1, 0),
}


def make_model(
    there: tuple[int, ...], back: tuple[int, ...], count: int = 1, reduction: str = "none"
) -> onnx.ModelProto:
    """Return a network that writes rows to its cache along the axis that ``there`` brings to the front."""
    length, *rest = (CACHE[axis] for axis in there)
    nodes = [
        helper.make_node("Transpose", ["cache"], ["before"], perm=there),
        helper.make_node("ScatterND", ["before", "at", "row"], ["after"], reduction=reduction),
        helper.make_node("Transpose", ["after"], ["y"], perm=back),
    ]
    shape = [[length, *rest][axis] for axis in back]
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("cache", TensorProto.FLOAT, CACHE),
            helper.make_tensor_value_info("at", TensorProto.INT64, [count, 1]),
            helper.make_tensor_value_info("row", TensorProto.FLOAT, [count, *rest]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def check(model: onnx.ModelProto, cpu: tvm.target.Target, at: list[int]) -> int:
    """Compare with ONNX Runtime; return the number of called functions."""
    random = np.random.default_rng(0)
    shapes = [[d.dim_value for d in each.type.tensor_type.shape.dim] for each in model.graph.input]
    data: dict[str, np.ndarray] = {
        "cache": random.uniform(-1, 1, shapes[0]).astype(np.float32),
        "at": np.array(at, np.int64)[:, None],
        "row": random.uniform(-1, 1, shapes[2]).astype(np.float32),
    }
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    lowered = lower(import_model(model, "net"), cpu)
    (got,) = build_here(lowered, cpu)(data).values()
    np.testing.assert_array_equal(got, session.run(None, data)[0])
    return len(called_functions(lowered.mod))


@pytest.fixture(scope="module")
def cpu() -> tvm.target.Target:
    return tvm_target("llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 1}), FrozenMap())


@pytest.mark.parametrize("there", BACK)
def test_a_row_is_written_in_one_pass(there: tuple[int, ...], cpu: tvm.target.Target) -> None:
    length = CACHE[there[0]]
    assert check(make_model(there, BACK[there]), cpu, [length - 1]) == 1
    assert check(make_model(there, BACK[there]), cpu, [-length]) == 1


@pytest.mark.parametrize("back", [(0, 1, 2, 3), (2, 0, 1, 3)])
def test_what_is_not_brought_back_is_right(back: tuple[int, ...], cpu: tvm.target.Target) -> None:
    check(make_model((2, 0, 1, 3), back), cpu, [4])


@pytest.mark.parametrize(("at", "reduction"), [([1, 7], "none"), ([3], "add")])
def test_several_rows_and_sums_stay(at: list[int], reduction: str, cpu: tvm.target.Target) -> None:
    assert check(make_model((2, 0, 1, 3), (1, 2, 0, 3), len(at), reduction), cpu, at) > 1
