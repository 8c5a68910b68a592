"""The conversion of a darknet network, .cfg and .weights, to an ONNX model that gives boxes in pixels.

It knows the layers of YOLOv3-tiny; any other layer or option is an error, never a model that computes something else.
"""  # noqa: INP001 - models.yaml names it by its path

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from darknet_files import Section, Weights, read_sections
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 13, 8
INPUT, OUTPUT = "picture", "detections"
LEAK = {"leaky": 0.1, "linear": 1.0}
EPSILON = 1e-5
"""The number that darknet adds to a variance (on CPUs it once added 1e-6 to the deviation instead)."""


@dataclass(frozen=True)
class Value:
    """The output of a layer: a tensor [1, channels, height, width]."""

    name: str
    channels: int
    height: int
    width: int


@dataclass
class Network:
    """An ONNX graph under construction; ``outputs`` has one value for each layer, as routes count them."""

    picture: Value
    weights: Weights
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    boxes: list[str] = field(default_factory=list)
    rows: int = 0
    classes: int = 0

    @property
    def last(self) -> Value:
        """The input of the next layer."""
        return self.outputs[-1] if self.outputs else self.picture

    def add(self, kind: str, inputs: list[str], **attributes: object) -> str:
        """Add a node and return its output's name."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def constant(self, values: object, dtype: type = np.float32) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype, "C"), name))
        return name

    def columns(self, value: str, start: int, stop: int) -> str:
        """Return the columns ``start`` to ``stop`` of the last of three dimensions."""
        return self.add("Slice", [value, *(self.constant([each], np.int64) for each in (start, stop, 2))])


def to_onnx(cfg: Path, weights: Path) -> onnx.ModelProto:
    """Return the model: ``picture`` [1, 3, H, W] in [0, 1] becomes ``detections`` [1, boxes, 5 + classes].

    A row is the box's centre x and y, width and height, in pixels of ``picture``, the probability that it holds
    something, and each class's, given that it does. ValueError if the files cannot be read.
    """
    settings, *layers = read_sections(Path(cfg))
    if settings.kind != "net":
        raise ValueError(f"{settings.place}: the first section of a network is [net], not [{settings.kind}]")
    size = [settings.number(key) for key in ("channels", "height", "width")]
    network = Network(Value(INPUT, *size), Weights(Path(weights)))
    for section in layers:
        add, known = LAYERS.get(section.kind, (None, ()))
        if add is None:
            raise ValueError(f"{section.place}: no layer [{section.kind}] is known; known are {', '.join(LAYERS)}")
        if unknown := [key for key in section.options if key not in known]:
            raise ValueError(f"{section.place}: [{section.kind}] has options that are not known: {', '.join(unknown)}")
        network.outputs.append(add(network, section))
    network.weights.check_used()
    if not network.boxes:
        raise ValueError(f"{cfg} has no [yolo] section: no boxes come out of it")
    network.nodes.append(helper.make_node("Concat", network.boxes, [OUTPUT], OUTPUT, axis=1))
    shapes = {INPUT: [1, *size], OUTPUT: [1, network.rows, 5 + network.classes]}
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in shapes.items()]
    graph = helper.make_graph(network.nodes, "darknet", *ends, network.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model


def _add_convolution(network: Network, section: Section) -> Value:
    """Add a convolution, its batch normalisation folded into its weights."""
    source, count, size = network.last, section.number("filters"), section.number("size")
    stride, padding = section.number("stride", 1), size // 2 if section.number("pad", 0) else 0
    activation = section.text("activation")
    if activation not in LEAK:
        raise ValueError(f"{section.place}: activation={activation} is not known; known are {', '.join(LEAK)}")
    shift = network.weights.take(count).astype(np.float64)
    factor = np.ones(count)
    if section.number("batch_normalize", 0):
        scale, mean, variance = network.weights.take(3, count).astype(np.float64)
        factor = scale / (np.sqrt(variance + EPSILON))
        shift -= mean * factor
    kernel = network.weights.take(count, source.channels, size, size) * factor[:, None, None, None]
    parameters = [network.constant(kernel), network.constant(shift)]
    shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
    name = network.add("Conv", [source.name, *parameters], **shape)
    if LEAK[activation] != 1:
        name = network.add("LeakyRelu", [name], alpha=LEAK[activation])
    height, width = ((length + 2 * padding - size) // stride + 1 for length in (source.height, source.width))
    return Value(name, count, height, width)


def _add_maxpool(network: Network, section: Section) -> Value:
    """Add a pooling; darknet's is padded by ``size - 1``, the smaller half above and left."""
    source, size, stride = network.last, section.number("size"), section.number("stride")
    before = (size - 1) // 2
    lengths = np.array([source.height, source.width])
    results = (lengths - 1) // stride + 1
    after = np.maximum(0, (results - 1) * stride + size - lengths - before)
    shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [before, before, *after.tolist()]}
    return Value(network.add("MaxPool", [source.name], **shape), source.channels, *results.tolist())


def _add_route(network: Network, section: Section) -> Value:
    """Return an earlier layer, or several joined; a number below zero counts from here."""
    here = len(network.outputs)
    indices = [index + here if index < 0 else index for index in section.numbers("layers")]
    if not all(0 <= index < here for index in indices):
        raise ValueError(f"{section.place}: a route leads to a layer that is not before it")
    values = [network.outputs[index] for index in indices]
    first, channels = values[0], sum(value.channels for value in values)
    name = first.name if len(values) == 1 else network.add("Concat", [value.name for value in values], axis=1)
    return Value(name, channels, first.height, first.width)


def _add_upsample(network: Network, section: Section) -> Value:
    """Repeat each element ``stride`` times in both directions."""
    source, stride = network.last, section.number("stride")
    nearest = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    name = network.add("Resize", [source.name, "", network.constant([1, 1, stride, stride])], **nearest)
    return Value(name, source.channels, source.height * stride, source.width * stride)


def _add_boxes(network: Network, section: Section) -> Value:
    """Decode the boxes; the rows go along x, then y, and at each place over the anchors."""
    source, classes, picture = network.last, section.number("classes"), network.picture
    anchors = np.reshape(section.numbers("anchors"), (-1, 2))[section.numbers("mask")]
    per_place, rows = 5 + classes, source.height * source.width * len(anchors)
    if source.channels != per_place * len(anchors):
        raise ValueError(f"{section.place}: {len(anchors)} anchors of {per_place} numbers are not {source.channels}")
    if network.classes not in (0, classes):
        raise ValueError(f"{section.place}: {classes} classes, another [yolo] has {network.classes}")
    y, x, anchor = np.indices((source.height, source.width, len(anchors))).reshape(3, rows)
    step = np.array([picture.width / source.width, picture.height / source.height])
    last = network.add("Transpose", [source.name], perm=[0, 2, 3, 1])
    table = network.add("Reshape", [last, network.constant([1, rows, per_place], np.int64)])
    inside = network.add("Sigmoid", [network.columns(table, 0, 2)])
    corners = network.constant(np.stack([x, y], axis=1)[None] * step)
    centre = network.add("Add", [network.add("Mul", [inside, network.constant(step)]), corners])
    extent = network.add(
        "Mul", [network.add("Exp", [network.columns(table, 2, 4)]), network.constant(anchors[anchor][None])]
    )
    scores = network.add("Sigmoid", [network.columns(table, 4, per_place)])
    network.boxes.append(network.add("Concat", [centre, extent, scores], axis=2))
    network.rows, network.classes = network.rows + rows, classes
    return source


_TRAINING = ("num", "jitter", "ignore_thresh", "truth_thresh", "random")
LAYERS: dict[str, tuple[Callable[[Network, Section], Value], tuple[str, ...]]] = {
    "convolutional": (_add_convolution, ("batch_normalize", "filters", "size", "stride", "pad", "activation")),
    "maxpool": (_add_maxpool, ("size", "stride")),
    "route": (_add_route, ("layers",)),
    "upsample": (_add_upsample, ("stride",)),
    "yolo": (_add_boxes, ("mask", "anchors", "classes", *_TRAINING)),
}
"""The function that adds each kind of layer, and the options that the layer may have."""
