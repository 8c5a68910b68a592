"""Parts without elements need no computation, and the operators around them are fused."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

pytestmark = pytest.mark.compiler


def make_model(sizes: list[int], *, joined: bool) -> onnx.ModelProto:
    """Return a split into these sizes; one part is doubled; then all are joined, or the doubled one is the output."""
    names = [f"part{index}" for index in range(len(sizes))]
    nodes = [
        helper.make_node("Split", ["x", "sizes"], names, axis=1),
        helper.make_node("Add", [names[0], names[0]], ["twice"]),
        helper.make_node("Concat", ["twice", *names[1:]], ["all"], axis=1),
        helper.make_node("Sqrt", ["all" if joined else "twice"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes if joined else [nodes[0], nodes[1], nodes[3]],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, sum(sizes)])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, sum(sizes) if joined else sizes[0]])],
        [numpy_helper.from_array(np.array(sizes, np.int64), "sizes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("sizes", [[8, 0], [8, 0, 4], [0, 8], [3, 5]])
def test_numbers(sizes: list[int], joined: bool, cpu: tvm.target.Target) -> None:
    model = make_model(sizes, joined=joined)
    data = {"x": np.random.default_rng(0).uniform(0, 1, (3, sum(sizes))).astype(np.float32)}
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, data)
    (got,) = build_here(lower(import_model(model, "net"), cpu), cpu)(data).values()
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_splits_nothing_off_is_no_split(cpu: tvm.target.Target) -> None:
    lowered = lower(import_model(make_model([8, 0], joined=True), "net"), cpu)
    assert [task.name for task in extract_tasks(lowered)] == ["add_tir_sqrt"]
