"""Small quantised networks in the QDQ form, written as exporters write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.target import host_target

Arrays = dict[str, np.ndarray]
_KINDS = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "float32": TensorProto.FLOAT}


@dataclass
class Network:
    """Nodes and constants under construction; tensors are float32 between a dequantisation and a quantisation."""

    random: np.random.RandomState
    activations: str = "uint8"
    """The type that activations are rounded to."""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: Arrays = field(default_factory=dict)

    def add(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Append a node; return its output."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def keep(self, value: np.ndarray) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def round(self, tensor: str, scale: float, zero: int) -> str:
        """Quantise and dequantise; zero is as of uint8."""
        zero = zero - (128 if self.activations == "int8" else 0)
        steps = [self.keep(np.float32(scale)), self.keep(np.array(zero, self.activations))]
        return self.add("DequantizeLinear", [self.add("QuantizeLinear", [tensor, *steps]), *steps])

    def weigh(self, shape: Sequence[int], *, axis: int | None = 0, extreme: bool = False) -> tuple[str, np.ndarray]:
        """Return dequantised int8 weights and their scales, one for each index of the axis, or one."""
        scales = self.random.uniform(0.001, 0.02, () if axis is None else shape[axis]).astype(np.float32)
        values = self.random.randint(-127, 128, shape).astype(np.int8)
        if extreme:
            values = np.where(values < 0, -128, 127).astype(np.int8)
        zeros = np.zeros(scales.shape, np.int8)
        names = [self.keep(each) for each in (values, scales, zeros)]
        return self.add("DequantizeLinear", names, **({} if axis is None else {"axis": axis})), scales

    def offset(self, count: int, scales: np.ndarray, scale: float) -> str:
        """Return a dequantised int32 bias in steps of the sum."""
        steps = np.broadcast_to(scales * np.float32(scale), (count,)).astype(np.float32)
        values = self.random.randint(-20000, 20000, count).astype(np.int32)
        names = [self.keep(each) for each in (values, steps, np.zeros(count, np.int32))]
        return self.add("DequantizeLinear", names, axis=0)

    def finish(self, output: str, shape: Sequence[int], opset: int = 17) -> bytes:
        """Return the model: x → y."""
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        graph = helper.make_graph(
            self.nodes,
            "quantised",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())


def run_optimized(model: bytes, inputs: Arrays) -> Arrays:
    """Return what ONNX Runtime computes in integers."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def compute(model: bytes, x: np.ndarray, target: tvm.target.Target | None = None) -> np.ndarray:
    """Return what a network of one input computes as built by rule, for this CPU or for such a target."""
    target = target or host_target(threads=2)
    outputs: Arrays = build_here(lower(import_onnx(model), target), target)({"x": x})
    return outputs["y"]
