"""Operators have the same names at all sizes of a model, by which `keep:` and `exclude:` choose them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.specs import InputSpec
from tvmbuild.preparing.simplify import simplify


def test_an_operator_that_a_size_lacks_does_not_rename_the_others(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Expand", ["x", "wide"], ["rows"]),  # nothing to do at a batch of 4
        helper.make_node("MatMul", ["rows", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", "y")]
    weights = {"w": np.random.default_rng(0).standard_normal((8, 8), np.float32), "wide": np.array([4, 8])}
    graph = helper.make_graph(
        nodes, "net", ends[:1], ends[1:], [numpy_helper.from_array(value, name) for name, value in weights.items()]
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    named = {}
    for batch in (1, 4):
        made = simplify(path, [InputSpec("x", shape=(batch, 8))], name="net", of_several_sizes=True)
        graph = onnx.load_model_from_string(made.model).graph
        named[batch] = {node.output[0]: node.name for node in graph.node}
    assert [len(named[batch]) for batch in (1, 4)] == [4, 3]
    assert {name: named[1][name] for name in named[4]} == named[4]
    assert all(named[1].values())
