"""The networks with attention made here: in small sizes, they give ONNX Runtime's outputs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import decoder
import dequantised
import encoders
import numpy as np
import onnx
import onnxruntime
import pytest
from network_graph import FLOAT, Graph
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Tolerance
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.preparing.compare import compare

CPU: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2})
SMALL = {"layers": 2, "heads": 4, "groups": 2, "size": 16, "inner": 40, "words": 50, "cells": 13}
DECODERS = {
    "scatter": partial(decoder.make_written_out, "scatter", **SMALL),
    "slide": partial(decoder.make_written_out, "slide", opset=18, **SMALL),
    "where": partial(decoder.make_written_out, "where", opset=13, **SMALL),
    "operators": partial(decoder.make_in_operators, **SMALL),
}


def open_session(model: onnx.ModelProto, saved: Path | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if saved is not None:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(saved)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def check(model: onnx.ModelProto, original: onnx.ModelProto, data: dict[str, np.ndarray]) -> None:
    target = tvm_target("llvm", CPU, FrozenMap())
    session = open_session(original)
    names = [each.name for each in session.get_outputs()]
    want = dict(zip(names, session.run(names, data), strict=True))
    got = build_here(lower(import_model(model, "network"), target), target)(data)
    assert compare(got, want, Tolerance(1e-3, 1e-4, 1e-3)).problem is None


def draw_inputs(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    random, data = np.random.default_rng(1), {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        whole = value.type.tensor_type.elem_type == TensorProto.INT64
        data[value.name] = random.integers(0, 13, shape) if whole else random.normal(0, 1, shape).astype(np.float32)
    return data


@pytest.mark.sampled(1)
@pytest.mark.compiler
@pytest.mark.parametrize(
    "made", ["scatter", "operators", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("slide", "where"))]
)
def test_a_decoders_step(made: str) -> None:
    model = DECODERS[made]()
    check(model, model, draw_inputs(model))


@pytest.mark.compiler
def test_what_onnx_runtime_makes_of_an_encoder(tmp_path: Path) -> None:
    graph, value = Graph(), "x"
    for _ in range(2):
        value = encoders.add_layer(graph, value, (5, 32), 2)
    model = graph.finish("encoder", {"x": (FLOAT, [1, 5, 32])}, {"y": (value, FLOAT, [1, 5, 32])}, 17)
    open_session(model, tmp_path / "optimised.onnx")
    optimised = onnx.load(tmp_path / "optimised.onnx")
    foreign = {node.op_type for node in optimised.graph.node if node.domain == "com.microsoft"}
    assert foreign >= {"FusedMatMul", "Gelu"}
    check(optimised, model, draw_inputs(model))


def test_a_quantised_network_in_floats(tmp_path: Path) -> None:
    random, axis = np.random.default_rng(2), {"axis": 1}
    whole, scales = random.integers(-9, 9, (4, 3)).astype(np.int8), random.uniform(0.1, 1, 3).astype(np.float32)
    weights = {"w": whole, "s": scales, "one": np.float32(0.5), "z": np.uint8(7), "zeros": np.zeros(3, np.int8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "one", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s", "zeros"], ["v"], **axis),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
    ]
    values = {name: helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (("x", [2, 4]), ("y", [2, 3]))}
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", [values["x"]], [values["y"]], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "q.onnx")
    made = dequantised.make(tmp_path / "q.onnx")
    assert [node.op_type for node in made.graph.node] == ["MatMul"]
    x = random.normal(0, 1, (2, 4)).astype(np.float32)
    (got,) = open_session(made).run(None, {"x": x})
    np.testing.assert_allclose(got, x @ (whole * scales), rtol=1e-5)
