"""Small networks, drawn from a seed, whose nodes are named after their results: the places that `debug` names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A growing graph with one input, x."""

    def __init__(self, seed: int, *shape: int) -> None:
        self.random, self.shape = np.random.RandomState(seed), shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, operator: str, *inputs: str, out: str, **attributes: Any) -> str:
        """Add a node with one output, which has its name."""
        self.nodes.append(helper.make_node(operator, list(inputs), [out], name=out, **attributes))
        return out

    def weight(self, *shape: int) -> str:
        """Add random weights that keep sums near one; return their name."""
        scale = max(1.0, float(np.sqrt(np.prod(shape[1:]))))
        return self.keep((self.random.uniform(-1.5, 1.5, shape) / scale).astype(np.float32))

    def keep(self, value: Any) -> str:
        """Add a constant; return its name."""
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def conv(self, x: str, sizes: tuple[int, int, int], out: str, **attributes: Any) -> str:
        """Add a convolution that keeps the height, from ``sizes``: channels, outputs, kernel."""
        channels, outputs, kernel = sizes
        weights = [self.weight(outputs, channels, kernel, kernel), self.weight(outputs)]
        return self.add("Conv", x, *weights, out=out, pads=[kernel // 2] * 4, **attributes)

    def finish(self, *outputs: str) -> onnx.ModelProto:
        """Return the model."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model)


def classifier(seed: int) -> onnx.ModelProto:
    """Return a network of convolutions with a skip connection, some plain layers before it, and a softmax."""
    net = Net(seed, 1, 8, 16, 16)
    x = "x"
    for number in range(seed % 4):
        x = net.add("Relu", net.conv(x, (8, 8, 3), f"plain{number}"), out=f"plain_relu{number}")
    first = net.add("Relu", net.conv(x, (8, 16, 3), "first"), out="first_relu")
    wide = net.add("HardSwish", net.conv(first, (16, 24, 3), "wide"), out="wide_act")
    small = net.add("Sigmoid", net.conv(wide, (24, 16, 3), "small", strides=[2, 2]), out="small_act")
    skip = net.conv(first, (16, 16, 1), "skip", strides=[2, 2])
    joined = net.add("Add", small, skip, out="joined")
    leaky = net.add("LeakyRelu", joined, out="leaky", alpha=0.2)
    pooled = net.add("MaxPool", leaky, out="pooled", kernel_shape=[2, 2], strides=[2, 2])
    mean = net.add("GlobalAveragePool", pooled, out="mean")
    flat = net.add("Flatten", mean, out="flat")
    logits = net.add("Gemm", flat, net.weight(10, 16), net.weight(10), out="logits", transB=1)
    return net.finish(net.add("Softmax", logits, out="probabilities"))


def transformer(seed: int) -> onnx.ModelProto:
    """Return blocks of attention with two heads, and of an MLP with GELU."""
    net = Net(seed, 1, 12, 32)
    x = "x"
    for number in range(1 + seed % 2):
        x = _block(net, x, f"b{number}_")
    last = net.add("ReduceMean", x, out="last", axes=[1], keepdims=0)
    return net.finish(net.add("LogSoftmax", last, out="scores"))


def _norm(net: Net, x: str, out: str) -> str:
    scale, bias = net.keep(np.ones(32, np.float32)), net.weight(32)
    return net.add("LayerNormalization", x, scale, bias, out=out, epsilon=1e-5)


def _block(net: Net, x: str, name: str) -> str:
    normed, heads = _norm(net, x, f"{name}norm"), net.keep(np.array([1, 12, 2, 16]))
    parts = []
    for part, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        product = net.add("MatMul", normed, net.weight(32, 32), out=f"{name}{part}")
        split = net.add("Reshape", product, heads, out=f"{name}{part}_split")
        parts.append(net.add("Transpose", split, out=f"{name}{part}_heads", perm=perm))
    scores = net.add("MatMul", parts[0], parts[1], out=f"{name}scores")
    scaled = net.add("Mul", scores, net.keep(np.float32(0.25)), out=f"{name}scaled")
    weights = net.add("Softmax", scaled, out=f"{name}weights")
    mixed = net.add("MatMul", weights, parts[2], out=f"{name}mixed")
    back = net.add("Transpose", mixed, out=f"{name}back", perm=[0, 2, 1, 3])
    whole = net.add("Reshape", back, net.keep(np.array([1, 12, 32])), out=f"{name}whole")
    x = net.add("Add", x, net.add("MatMul", whole, net.weight(32, 32), out=f"{name}projected"), out=f"{name}attended")
    hidden = net.add("MatMul", _norm(net, x, f"{name}norm2"), net.weight(32, 64), out=f"{name}hidden")
    part = net.add("Div", hidden, net.keep(np.float32(np.sqrt(2))), out=f"{name}divided")
    erf = net.add("Add", net.add("Erf", part, out=f"{name}erf"), net.keep(np.float32(1)), out=f"{name}erf1")
    gelu = net.add("Mul", net.add("Mul", hidden, erf, out=f"{name}twice"), net.keep(np.float32(0.5)), out=f"{name}gelu")
    return net.add("Add", x, net.add("MatMul", gelu, net.weight(64, 32), out=f"{name}down"), out=f"{name}end")


def detector(seed: int) -> onnx.ModelProto:
    """Return a network that changes shapes: resize, concatenation, transposed convolution, padding, slices."""
    net = Net(seed, 1, 8, 12, 12)
    x = "x"
    for number in range(seed % 3):
        x = net.add("Clip", net.conv(x, (8, 8, 3), f"plain{number}"), *_limits(net), out=f"plain_clip{number}")
    first = net.add("LeakyRelu", net.conv(x, (8, 16, 3), "first"), out="first_leaky", alpha=0.1)
    small = net.add("Tanh", net.conv(first, (16, 20, 3), "small", strides=[2, 2]), out="small_tanh")
    scales = net.keep(np.array([1, 1, 2, 2], np.float32))
    large = net.add("Resize", small, "", scales, out="large", mode="linear")
    joined = net.add("Concat", first, large, out="joined", axis=1)
    up = net.add("ConvTranspose", joined, net.weight(36, 8, 2, 2), out="up", strides=[2, 2])
    padded = net.add("Pad", up, net.keep(np.array([0, 0, 1, 1, 0, 0, 1, 1])), out="padded", mode="reflect")
    mean = net.add("AveragePool", padded, out="averaged", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    bounds = [net.keep(np.array([each])) for each in (1, 12, 2)]
    sliced = net.add("Slice", mean, *bounds, out="sliced")
    powers = net.add("Exp", sliced, out="powers")
    total = net.add("ReduceSum", powers, net.keep(np.array([1])), out="total", keepdims=1)
    share = net.add("Div", powers, total, out="share")
    return net.finish(net.add("Transpose", share, out="last", perm=[0, 2, 3, 1]))


def _limits(net: Net) -> list[str]:
    return [net.keep(np.float32(each)) for each in (-1, 1)]


def recurrent(seed: int) -> onnx.ModelProto:
    """Return a GRU between two products."""
    net = Net(seed, 6, 1, 16)
    entry = net.add("Tanh", net.add("MatMul", "x", net.weight(16, 16), out="entry"), out="entry_tanh")
    weights = [net.weight(1, 48, 16), net.weight(1, 48, 16), net.weight(1, 96)]
    net.nodes.append(helper.make_node("GRU", [entry, *weights], ["states"], name="states", hidden_size=16))
    net.add("Squeeze", "states", net.keep(np.array([1])), out="squeezed")
    return net.finish(net.add("Sigmoid", net.add("MatMul", "squeezed", net.weight(16, 4), out="exit"), out="answer"))


def quantised(seed: int) -> onnx.ModelProto:
    """Return convolutions between roundings to 8 bits, in the QDQ form."""
    net = Net(seed, 1, 16, 10, 10)
    x = _round(net, "x", 0.01, 128, "x8")
    for number in range(2 + seed % 2):
        weights = net.keep(net.random.randint(-127, 128, (16, 16, 3, 3)).astype(np.int8))
        scale, zero = net.keep(np.float32(0.001)), net.keep(np.int8(0))
        weighed = net.add("DequantizeLinear", weights, scale, zero, out=f"w{number}")
        product = net.add("Conv", x, weighed, out=f"conv{number}", pads=[1, 1, 1, 1])
        x = _round(net, net.add("Relu", product, out=f"relu{number}"), 0.012, 0, f"r{number}")
    return net.finish(net.add("Sigmoid", x, out="answer"))


def _round(net: Net, x: str, scale: float, zero: int, name: str) -> str:
    steps = [net.keep(np.float32(scale)), net.keep(np.uint8(zero))]
    return net.add("DequantizeLinear", net.add("QuantizeLinear", x, *steps, out=f"{name}_q"), *steps, out=f"{name}_dq")


def large(seed: int) -> onnx.ModelProto:
    """Return products whose sums exceed float16's largest number, and a normalisation that makes them small again."""
    net = Net(seed, 4, 32)
    entry = net.add("Relu", net.add("MatMul", "x", net.weight(32, 32), out="entry"), out="entry_relu")
    wide = net.keep(net.random.uniform(1e4, 6e4, (32, 32)).astype(np.float32))
    product = net.add("MatMul", entry, wide, out="wide")
    normed = net.add("LayerNormalization", product, net.keep(np.ones(32, np.float32)), out="normed")
    return net.finish(net.add("MatMul", normed, net.weight(32, 8), out="answer"))


NETS: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    each.__name__: each for each in (classifier, transformer, detector, recurrent, quantised, large)
}
"""The networks by name."""
