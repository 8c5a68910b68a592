"""Graphs whose lengths depend on data, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.importing.reading import tidy
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.pipeline import lower

OPSET = 17
Arrays = Mapping[str, np.ndarray]


@dataclass
class Graph:
    """A graph that is written node by node."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    prefix: str = ""

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Write a node, and return the name of its output, or the names."""
        names = [f"{self.prefix}v{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Write a constant, and return its name."""
        name = f"{self.prefix}c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def take(self, name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> str:
        """Declare an input, and return its name."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def finish(self, outputs: Mapping[str, int]) -> onnx.ModelProto:
        """Return the model with these outputs and their types."""
        values = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
        graph = helper.make_graph(self.nodes, "counted", self.inputs, values, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def expect(model: onnx.ModelProto, feed: Arrays) -> dict[str, np.ndarray]:
    """Return the outputs of ONNX Runtime by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([value.name for value in model.graph.output], session.run(None, dict(feed)), strict=True))


def build(model: onnx.ModelProto, target: Any = None) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """Return the function that computes the model here."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    tidy(copy)
    target = target or host_target(threads=1)
    imported = import_model(copy, "counted", for_gpu=str(target.kind.name) != "llvm")
    return build_here(lower(imported, target), target)


def check(model: onnx.ModelProto, feeds: Sequence[Arrays], target: Any = None) -> None:
    """Compare the model with ONNX Runtime on inputs."""
    compute = build(model, target)
    for feed in feeds:
        got, want = compute(feed), expect(model, feed)
        for name, value in want.items():
            assert got[name].shape == value.shape, (name, got[name].shape, value.shape)
            assert got[name].dtype == value.dtype
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=3e-5)
