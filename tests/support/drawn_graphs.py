"""Small graphs, drawn by hypothesis with fitting weights, of the operators that the compiler rewrites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
MAX_PIXELS = 24
Shape: TypeAlias = tuple[int, int, int, int]


@dataclass
class Graph:
    """A growing graph: values of four dimensions in NCHW, each with its shape."""

    draw: st.DrawFn
    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)

    def pick(self, *choices: Any) -> Any:
        """Draw one of the choices."""
        return self.draw(st.sampled_from(choices))

    def weight(self, *shape: int, low: float = -1.0, high: float = 1.0) -> str:
        """Add random numbers, scaled so that sums over them stay near one; return their name."""
        scale = max(1.0, np.sqrt(np.prod(shape[1:], dtype=float))) if low < 0 else 1.0
        return self.constant((self.random.uniform(low, high, shape) / scale).astype(np.float32))

    def constant(self, values: np.ndarray) -> str:
        """Add a constant; return its name."""
        name = f"w{len(self.weights)}"
        self.weights[name] = values
        return name

    def add(self, operator: str, *inputs: str, shape: Shape | None = None, **attributes: Any) -> str:
        """Add a node with one output; without ``shape`` other nodes may not take it."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        if shape is not None:
            self.shapes[name] = shape
        return name


def _convolution(graph: Graph, x: str) -> None:
    _, channels, height, width = graph.shapes[x]
    kernel, stride = graph.pick(1, 3, 3, 5), graph.pick(1, 1, 2)
    if min(height, width) < kernel:
        return
    groups = graph.pick(1, 1, 1, channels, *(each for each in (2, 3, 4) if channels % each == 0))
    out = groups * graph.pick(1, 2, 4) if groups > 1 else graph.pick(3, 4, 8, 16, 20, 24, 34)
    pads = [graph.pick(0, kernel // 2) for _ in range(4)]
    shape = (
        1,
        out,
        (height + pads[0] + pads[2] - kernel) // stride + 1,
        (width + pads[1] + pads[3] - kernel) // stride + 1,
    )
    inputs = [x, graph.weight(out, channels // groups, kernel, kernel)]
    inputs += [graph.weight(out)] if graph.pick(True, False) else []
    graph.add("Conv", *inputs, shape=shape, group=groups, strides=[stride] * 2, pads=pads)


def _activation(graph: Graph, x: str) -> None:
    shape = graph.shapes[x]
    name = graph.pick(
        "Relu", "LeakyRelu", "Sigmoid", "HardSwish", "Tanh", "Elu", "HardSigmoid", "Softplus", "Erf", "PRelu", "Clip"
    )
    more = {"PRelu": [graph.weight(shape[1], 1, 1)], "Clip": [graph.constant(np.float32(each)) for each in (-0.5, 0.4)]}
    graph.add(name, x, *(np_name for np_name in more.get(name, [])), shape=shape)


def _with_constant(graph: Graph, x: str) -> None:
    shape = graph.shapes[x]
    forms: list[tuple[int, ...]] = [(), (1,), (shape[1], 1, 1), (1, shape[1], 1, 1), shape, (1, 1, shape[2], 1)]
    operator, form = graph.pick("Add", "Mul", "Sub", "Div", "Max", "Min"), graph.pick(*forms)
    values = graph.constant(graph.random.uniform(0.5, 1.5, form).astype(np.float32))
    graph.add(operator, *((x, values) if graph.pick(True, False) or operator == "Div" else (values, x)), shape=shape)


def _with_other(graph: Graph, x: str) -> None:
    alike = [name for name, shape in graph.shapes.items() if shape == graph.shapes[x]]
    others = [graph.pick(*alike) for _ in range(graph.pick(1, 1, 2))]
    operator = graph.pick("Sum", "Max", "Min") if len(others) > 1 else graph.pick("Add", "Mul", "Sub", "Sum")
    graph.add(operator, x, *others, shape=graph.shapes[x])


def _concat(graph: Graph, x: str) -> None:
    _, channels, height, width = graph.shapes[x]
    alike = [name for name, shape in graph.shapes.items() if shape[2:] == (height, width)]
    other = graph.pick(*alike)
    graph.add("Concat", x, other, shape=(1, channels + graph.shapes[other][1], height, width), axis=1)


def _shuffle(graph: Graph, x: str) -> None:
    _, channels, height, width = graph.shapes[x]
    groups = graph.pick(2, 4)
    if channels % groups:
        return
    apart = graph.constant(np.array([1, groups, channels // groups, height, width]))
    back = graph.constant(np.array([1, channels, height, width]))
    turned = graph.add("Transpose", graph.add("Reshape", x, apart), perm=[0, 2, 1, 3, 4])
    graph.add("Reshape", turned, back, shape=graph.shapes[x])


def _pool(graph: Graph, x: str) -> None:
    _, channels, height, width = graph.shapes[x]
    kernel, stride = graph.pick(2, 3), graph.pick(1, 2)
    if min(height, width) < kernel + 1:
        return
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
    shape = (1, channels, (height - kernel) // stride + 1, (width - kernel) // stride + 1)
    graph.add(graph.pick("MaxPool", "AveragePool"), x, shape=shape, **attributes)


def _gate(graph: Graph, x: str) -> None:
    channels = graph.shapes[x][1]
    mean = graph.add("GlobalAveragePool", x) if graph.pick(True, False) else graph.add("ReduceMean", x, axes=[2, 3])
    squeezed = graph.add("Conv", mean, graph.weight(channels, channels, 1, 1))
    graph.add("Mul", x, graph.add("Sigmoid", squeezed), shape=graph.shapes[x])


def _resize(graph: Graph, x: str) -> None:
    _, channels, height, width = graph.shapes[x]
    if max(height, width) > MAX_PIXELS // 2:
        return
    scales = graph.constant(np.array([1, 1, 2, 2], np.float32))
    mode, coordinates = graph.pick(("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"))
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
    graph.add("Resize", x, "", scales, shape=(1, channels, 2 * height, 2 * width), **attributes)


def _transposed_convolution(graph: Graph, x: str) -> None:
    _, channels, height, width = graph.shapes[x]
    if max(height, width) > MAX_PIXELS // 2:
        return
    out, kernel = graph.pick(3, 8), graph.pick(2, 3)
    extra = kernel - 2
    shape = (1, out, 2 * height, 2 * width)
    attributes = {"strides": [2, 2], "pads": [0, 0, extra, extra]}
    graph.add("ConvTranspose", x, graph.weight(channels, out, kernel, kernel), shape=shape, **attributes)


def _over_channels(graph: Graph, x: str) -> None:
    _, channels, height, width = graph.shapes[x]
    out = graph.pick(3, 8)
    last = graph.add("Transpose", x, perm=[0, 2, 3, 1])
    if graph.pick(True, False):
        last = graph.add("Softmax", last, axis=-1)
    product = graph.add("MatMul", last, graph.weight(channels, out))
    graph.add("Transpose", product, shape=(1, out, height, width), perm=[0, 3, 1, 2])


def _take_rows(graph: Graph, _x: str) -> None:
    """Take rows of a table by the product of a one-hot matrix; the input gives the rows, so roundings may differ."""
    height, width = graph.shapes["x"][2:]
    rows, out = graph.pick(3, 5), graph.pick(3, 8)
    largest = graph.add("ReduceMax", graph.add("Transpose", "x", perm=[0, 2, 3, 1]), axes=[3], keepdims=1)
    numbers = graph.add("Cast", graph.add("Mul", largest, graph.constant(np.float32(4))), to=TensorProto.INT64)
    counted = graph.constant(np.arange(rows).reshape(graph.pick((rows,), (1, 1, 1, rows))))
    one_hot = graph.add("Cast", graph.add("Equal", numbers, counted), to=TensorProto.FLOAT)
    taken = graph.add("MatMul", one_hot, graph.weight(rows, out))
    if graph.pick(True, False):
        taken = graph.add("Tanh", graph.add("Add", taken, graph.weight(out)))
    graph.add("Transpose", taken, shape=(1, out, height, width), perm=[0, 3, 1, 2])


def _normalize(graph: Graph, x: str) -> None:
    channels = graph.shapes[x][1]
    scale, variance = (graph.weight(channels, low=0.5, high=1.5) for _ in range(2))
    graph.add(
        "BatchNormalization", x, scale, graph.weight(channels), graph.weight(channels), variance, shape=graph.shapes[x]
    )


def _pad(graph: Graph, x: str) -> None:
    _, channels, height, width = graph.shapes[x]
    if min(height, width) < 2:
        return
    pads = graph.constant(np.array([0, 0, 1, 0, 0, 0, 1, 1]))
    graph.add(
        "Pad", x, pads, shape=(1, channels, height + 2, width + 1), mode=graph.pick("constant", "reflect", "edge")
    )


def _slice(graph: Graph, x: str) -> None:
    shape, axis = list(graph.shapes[x]), graph.pick(1, 2, 3)
    if shape[axis] < 3:
        return
    first, last, number = (graph.constant(np.array([each])) for each in (1, shape[axis], axis))
    shape[axis] -= 1
    graph.add("Slice", x, first, last, number, shape=(1, shape[1], shape[2], shape[3]))


_STEPS: tuple[Callable[[Graph, str], None], ...] = (
    _convolution,
    _convolution,
    _convolution,
    _activation,
    _activation,
    _with_constant,
    _with_other,
    _concat,
    _shuffle,
    _pool,
    _gate,
    _resize,
    _transposed_convolution,
    _over_channels,
    _take_rows,
    _normalize,
    _pad,
    _slice,
)


@st.composite
def draw_graphs(draw: st.DrawFn) -> onnx.ModelProto:
    """Draw a model of one input and one or two outputs."""
    graph = Graph(draw, np.random.default_rng(draw(st.integers(0, 999))))
    size = draw(st.tuples(st.integers(4, MAX_PIXELS // 2), st.integers(4, MAX_PIXELS // 2)))
    graph.shapes["x"] = (1, graph.pick(1, 3, 8, 12), *size)
    for _ in range(draw(st.integers(1, 8))):
        graph.pick(*_STEPS)(graph, graph.pick(*list(graph.shapes)[-3:]))
    made = list(graph.shapes)[1:] or [graph.add("Relu", "x", shape=graph.shapes["x"])]
    outputs = sorted({made[-1], graph.pick(*made)})
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "drawn",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, graph.shapes["x"])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, graph.shapes[name]) for name in outputs],
            [numpy_helper.from_array(values, name) for name, values in graph.weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    return model
