"""YOEO's layers, by Team Hamburg Bit-Bots (https://github.com/bit-bots/YOEO), with random weights, as ONNX.

Its time does not depend on the weights, and the trained ones are under GPL-3.
"""

from __future__ import annotations

import numpy as np
import onnx
from network_graph import Graph
from onnx import TensorProto, helper

SIZE, CLASSES, VALUES = 416, 3, 8
"""The side of the picture; the classes of a pixel; the values of a box: centre, size, objectness, three classes."""
ANCHORS = {32: ((30, 224), (69, 112), (116, 212)), 16: ((17, 32), (13, 171), (37, 67))}
"""Stride → width and height of its three boxes, in pixels."""
NEAREST = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
Value = tuple[str, int, int]
"""The output of a layer: its name, channels, and side in pixels."""


class Yoeo(Graph):
    """The parts of the network."""

    def convolve(self, value: Value, channels: int, kernel: int = 3, stride: int = 1, lead: float = 0) -> Value:
        """Add a convolution with weights as He et al. draw them; ``lead`` is added to the first channel's results."""
        name, before, side = value
        deviation = np.sqrt(2 / (before * kernel**2))
        weights = self.constant(self.random.normal(0, deviation, (channels, before, kernel, kernel)))
        shifts = self.random.normal(0, 0.05, channels)
        shifts[0] += lead
        shift = self.constant(shifts)
        shape = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2}
        return self.add("Conv", name, weights, shift, **shape), channels, side // stride

    def layer(self, value: Value, channels: int, kernel: int = 3, stride: int = 1, lead: float = 0) -> Value:
        """Add a convolution and its activation."""
        name, _, side = self.convolve(value, channels, kernel, stride, lead)
        return self.add("LeakyRelu", name, alpha=0.1), channels, side

    def join(self, first: Value, second: Value) -> Value:
        """Concatenate the channels of both."""
        return self.add("Concat", first[0], second[0], axis=1), first[1] + second[1], first[2]

    def double(self, value: Value) -> Value:
        """Repeat each pixel in both directions."""
        nothing, factors = self.constant([]), self.constant([1, 1, 2, 2])
        return self.add("Resize", value[0], nothing, factors, **NEAREST), value[1], 2 * value[2]

    def pool(self, value: Value) -> Value:
        """Halve the side."""
        return self.add("MaxPool", value[0], kernel_shape=[2, 2], strides=[2, 2]), value[1], value[2] // 2

    def cross(self, value: Value) -> tuple[Value, Value]:
        """Add a cross stage partial block; return its first layer and all of it."""
        first = self.layer(value, value[1])
        half = first[1] // 2
        left = self.layer((self.slice(first[0], half, 2 * half, 1), half, first[2]), half)
        right = self.layer(left, half)
        return first, self.join(first, self.layer(self.join(right, left), 2 * half, kernel=1))

    def boxes(self, value: Value) -> str:
        """Add a head; return the boxes [1, 3 · side², 8] in pixels of the picture."""
        name, _, side = self.convolve(value, 3 * VALUES, kernel=1)
        stride = SIZE // side
        split = self.add("Reshape", name, self.constant([1, 3, VALUES, side, side], np.int64))
        rows = self.add("Transpose", split, perm=[0, 1, 3, 4, 2])
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1)[None, None]
        corner = self.add("Add", self.add("Sigmoid", self.slice(rows, 0, 2, 4)), self.constant(grid))
        centre = self.add("Mul", corner, self.constant([stride]))
        anchors = self.constant(np.reshape(ANCHORS[stride], (1, 3, 1, 1, 2)))
        size = self.add("Mul", self.add("Exp", self.slice(rows, 2, 4, 4)), anchors)
        scores = self.add("Sigmoid", self.slice(rows, 4, VALUES, 4))
        joined = self.add("Concat", centre, size, scores, axis=4)
        return self.add("Reshape", joined, self.constant([1, 3 * side**2, VALUES], np.int64))


def make(seed: int = 0, lead: float = 10.0) -> onnx.ModelProto:
    """Return the model: InputLayer [1, 3, 416, 416] to Detections [1, 2535, 8] and Segmentations [1, 416, 416].

    The first class of a pixel leads by ``lead``: if two were as likely, rounding would decide, and programs would
    disagree.
    """
    graph = Yoeo(seed)
    halved = graph.layer(("InputLayer", 3, SIZE), 32, stride=2)
    fine, whole = graph.cross(graph.layer(halved, 64, stride=2))
    middle, whole = graph.cross(graph.pool(whole))
    coarse, whole = graph.cross(graph.pool(whole))
    neck = graph.layer(graph.layer(graph.pool(whole), 512), 256, kernel=1)
    far = graph.boxes(graph.layer(neck, 512))
    near = graph.boxes(graph.layer(graph.join(graph.double(graph.layer(neck, 128, kernel=1)), whole), 256))
    value = coarse
    for channels, skipped in ((128, middle), (64, fine), (32, halved)):
        value = graph.join(graph.layer(graph.double(value), channels), skipped)
    pixels = graph.layer(graph.layer(graph.double(value), 32), CLASSES, kernel=1, lead=lead)
    classes = graph.add("Cast", graph.add("ArgMax", pixels[0], axis=1, keepdims=0), to=TensorProto.UINT8)
    graph.nodes += [
        helper.make_node("Concat", [far, near], ["Detections"], axis=1),
        helper.make_node("Identity", [classes], ["Segmentations"]),
    ]
    ends = {
        "InputLayer": (TensorProto.FLOAT, [1, 3, SIZE, SIZE]),
        "Detections": (TensorProto.FLOAT, [1, 2535, VALUES]),
        "Segmentations": (TensorProto.UINT8, [1, SIZE, SIZE]),
    }
    inputs, *outputs = [helper.make_tensor_value_info(name, *kind) for name, kind in ends.items()]
    made = helper.make_graph(graph.nodes, "yoeo", [inputs], outputs, graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    onnx.checker.check_model(model, full_check=True)
    return model
