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
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.pipeline import lower

Arrays = dict[str, np.ndarray]
Case = tuple[bytes, tuple[int, ...]]
"""(a model x → y, the shape of x)."""
IN_SCALE, OUT_SCALE = 0.02, 0.11
_KINDS = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "float32": TensorProto.FLOAT}


@dataclass
class Network:
    """Nodes and constants under construction; tensors are float32 between a dequantisation and a quantisation."""

    random: np.random.RandomState
    activations: str = "uint8"
    """The type of rounded activations."""
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
        """Quantise and dequantise; ``zero`` is given as for uint8."""
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


def convolution(random: np.random.RandomState, activations: str = "uint8", **given: Any) -> Case:
    """Return a network of one convolution of ``channels`` to ``out``."""
    channels, out, size = given.pop("channels"), given.pop("out"), given.pop("size")
    kernel, group = given.pop("kernel_shape"), given.get("group", 1)
    zero, axis, after = given.pop("zero", 131), given.pop("axis", 0), given.pop("after", None)
    net, extreme = Network(random, activations), given.pop("extreme", False)
    weights, scales = net.weigh((out, channels // group, *kernel), axis=axis, extreme=extreme)
    bias = [net.offset(out, scales, IN_SCALE)] if given.pop("bias", True) else []
    summed = net.add("Conv", [net.round("x", IN_SCALE, zero), weights, *bias], kernel_shape=kernel, **given)
    made = net.add(after, [summed]) if after else summed
    shape = (1, channels, *size)
    return net.finish(net.round(made, OUT_SCALE * (8 if extreme else 1), 0 if after else 120), shape), shape


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "padded": {"channels": 8, "out": 16, "size": (9, 9), "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "picture": {
        "channels": 3,
        "out": 24,
        "size": (16, 14),
        "kernel_shape": [3, 3],
        "pads": [0, 0, 1, 1],
        "strides": [2, 2],
    },
    "pointwise": {"channels": 37, "out": 58, "size": (7, 7), "kernel_shape": [1, 1]},
    "depthwise": {
        "channels": 20,
        "out": 20,
        "size": (11, 8),
        "kernel_shape": [5, 5],
        "group": 20,
        "pads": [2, 2, 2, 2],
    },
    "dilated": {"channels": 16, "out": 32, "size": (12, 12), "kernel_shape": [3, 3], "dilations": [2, 2]},
    "one scale": {"channels": 16, "out": 32, "size": (5, 5), "kernel_shape": [1, 1], "axis": None},
    "no bias": {"channels": 16, "out": 16, "size": (5, 5), "kernel_shape": [3, 3], "bias": False, "zero": 0},
    "relu": {"channels": 16, "out": 16, "size": (5, 5), "kernel_shape": [3, 3], "after": "Relu"},
    "groups": {"channels": 24, "out": 12, "size": (9, 8), "kernel_shape": [3, 3], "group": 3, "pads": [1, 0, 1, 1]},
    "odd groups": {"channels": 15, "out": 90, "size": (6, 7), "kernel_shape": [3, 2], "group": 5, "strides": [2, 1]},
    "two outputs a channel": {"channels": 12, "out": 24, "size": (6, 6), "kernel_shape": [3, 3], "group": 12},
    "saturated": {"channels": 64, "out": 16, "size": (4, 4), "kernel_shape": [3, 3], "extreme": True, "zero": 0},
}


def product(random: np.random.RandomState, activations: str, transposed: int) -> Case:
    """Return a network of one product, from 50 numbers a row to 10."""
    net = Network(random, activations)
    weights, scales = net.weigh((10, 50) if transposed else (50, 10), axis=0 if transposed else 1)
    bias = net.offset(10, scales, IN_SCALE)
    made = net.add("Gemm", [net.round("x", IN_SCALE, 90), weights, bias], transB=transposed)
    return net.finish(net.round(made, OUT_SCALE, 128), (4, 50)), (4, 50)


def moved(random: np.random.RandomState) -> Case:
    """Return a network that pools, transposes and concatenates before it convolves."""
    net, shape = Network(random), (1, 6, 8, 8)
    pooled = net.add("MaxPool", [net.round("x", IN_SCALE, 100)], kernel_shape=[2, 2], strides=[2, 2])
    turned = net.add("Transpose", [pooled], perm=[0, 1, 3, 2])
    both = net.add("Concat", [turned, turned], axis=1)
    weights, scales = net.weigh((8, 12, 1, 1))
    made = net.add("Conv", [both, weights, net.offset(8, scales, IN_SCALE)])
    return net.finish(net.round(made, OUT_SCALE, 120), shape), shape


def run_optimized(model: bytes, inputs: Arrays) -> Arrays:
    """Return ONNX Runtime's outputs, computed in integers."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")  # without VNNI its sums of 16 bits saturate
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def compute(model: bytes, x: np.ndarray, target: tvm.target.Target | None = None) -> np.ndarray:
    """Return the outputs of a network of one input as built by rule, for this CPU or for the target."""
    target = target or host_target(threads=2)
    outputs: Arrays = build_here(lower(import_onnx(model), target), target)({"x": x})
    return outputs["y"]
