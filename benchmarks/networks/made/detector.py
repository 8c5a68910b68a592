"""A detector with a transformer, in the manner of RT-DETR, with random weights, as ONNX of opset 16.

It has a residual network, one encoder layer over its coarsest features, features of three scales joined in both
directions, the best places as queries, and decoder layers that attend to each other and to points that each query
chooses. Its time does not depend on the weights. Norms are written out, and attention has three dimensions with its
projections in one product, as exporters write them before LayerNormalization is an operator.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import onnx
from network_graph import FLOAT, Graph

SIDE, WIDTH, HEADS, POINTS = 320, 256, 8, 4
QUERIES, CLASSES, LAYERS = 100, 80, 3
STRIDES = (8, 16, 32)
SIDES = tuple(SIDE // stride for stride in STRIDES)
OPSET = 16
SIZE = WIDTH // HEADS


@dataclass(frozen=True)
class Picture:
    """A value [1, channels, side, side]."""

    name: str
    channels: int
    side: int


class Detector(Graph):
    """The parts of the network."""

    def convolve(self, value: Picture, channels: int, kernel: int = 3, stride: int = 1) -> Picture:
        """Add a convolution with the shift of a folded normalisation."""
        deviation = (2 / (value.channels * kernel**2)) ** 0.5
        weights = self.weights(channels, value.channels, kernel, kernel, scale=deviation)
        shape = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2}
        name = self.add("Conv", value.name, weights, self.weights(channels, scale=0.05), **shape)
        return Picture(name, channels, value.side // stride)

    def activate(self, value: Picture, kind: str = "Relu") -> Picture:
        """Add Relu, or SiLU as Sigmoid and Mul."""
        inner = self.add("Relu" if kind == "Relu" else "Sigmoid", value.name)
        return Picture(inner if kind == "Relu" else self.add("Mul", value.name, inner), value.channels, value.side)

    def residual(self, value: Picture, channels: int, stride: int) -> Picture:
        """Add a residual block."""
        inner = self.convolve(self.activate(self.convolve(value, channels, stride=stride)), channels)
        if stride > 1 or value.channels != channels:
            value = self.convolve(value, channels, kernel=1, stride=stride)
        return self.activate(Picture(self.add("Add", inner.name, value.name), channels, inner.side))

    def join(self, first: Picture, second: Picture) -> Picture:
        """Add a block that joins two values of one size: two branches of single pixels, one of them deeper."""
        both = Picture(self.add("Concat", first.name, second.name, axis=1), 2 * WIDTH, first.side)
        near, far = (self.activate(self.convolve(both, WIDTH // 2, kernel=1), "SiLU") for _ in range(2))
        far = self.activate(self.convolve(far, WIDTH // 2), "SiLU")
        total = Picture(self.add("Add", near.name, far.name), WIDTH // 2, first.side)
        return self.activate(self.convolve(total, WIDTH, kernel=1), "SiLU")

    def double(self, value: Picture) -> Picture:
        """Repeat each pixel in both directions."""
        nearest = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        scales = self.constant([1, 1, 2, 2])
        name = self.add("Resize", value.name, "", scales, **nearest)
        return Picture(name, value.channels, 2 * value.side)

    def rows(self, value: Picture) -> str:
        """Return the value as [1, side², channels]."""
        flat = self.reshape(value.name, 1, value.channels, value.side**2)
        return self.add("Transpose", flat, perm=[0, 2, 1])

    def norm(self, value: str, width: int) -> str:
        """Add a LayerNormalization in simpler operators."""
        centred = self.add("Sub", value, self.add("ReduceMean", value, axes=[-1]))
        variance = self.add("ReduceMean", self.add("Pow", centred, self.constant(2)), axes=[-1])
        deviation = self.add("Sqrt", self.add("Add", variance, self.constant(1e-5)))
        scaled = self.add("Mul", self.add("Div", centred, deviation), self.constant(np.ones(width)))
        return self.add("Add", scaled, self.constant(np.zeros(width)))

    def attend(self, value: str, places: str, tokens: int) -> str:
        """Add attention of the tokens [1, tokens, WIDTH] to themselves; queries and keys know their places."""
        both = self.linear(self.add("Add", value, places), WIDTH, 2 * WIDTH)
        query, key = self.add_many("Split", 2, both, self.integers(WIDTH, WIDTH), axis=2)
        query = self.add("Mul", self._apart(query, tokens), self.constant(SIZE**-0.5))
        key = self.add("Transpose", self._apart(key, tokens), perm=[0, 2, 1])
        weights = self.add("Softmax", self.add("MatMul", query, key), axis=-1)
        mixed = self.add("MatMul", weights, self._apart(self.linear(value, WIDTH, WIDTH), tokens))
        joined = self.reshape(self.add("Transpose", mixed, perm=[1, 0, 2]), 1, tokens, WIDTH)
        return self.linear(joined, WIDTH, WIDTH)

    def _apart(self, value: str, tokens: int) -> str:
        return self.add("Transpose", self.reshape(value, tokens, HEADS, SIZE), perm=[1, 0, 2])

    def feed(self, value: str, kind: str) -> str:
        """Add two layers with an activation between them, the residual and its norm."""
        inner = self.linear(value, WIDTH, 4 * WIDTH)
        inner = self.gelu(inner) if kind == "Gelu" else self.add(kind, inner)
        return self.norm(self.add("Add", value, self.linear(inner, 4 * WIDTH, WIDTH)), WIDTH)

    def perceptron(self, value: str, widths: tuple[int, ...]) -> str:
        """Add layers with Relu between them."""
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            value = self.linear(self.add("Relu", value) if i else value, before, after)
        return value

    def sample(self, query: str, boxes: str, levels: list[str]) -> str:
        """Add attention of each query to points around its box [1, QUERIES, 4] at every level."""
        count = len(levels) * POINTS
        shifts = self.reshape(self.linear(query, WIDTH, HEADS * count * 2), 1, QUERIES, HEADS, count, 2)
        weights = self.reshape(self.linear(query, WIDTH, HEADS * count), 1, QUERIES, HEADS, count)
        weights = self.add("Softmax", weights, axis=-1)
        centre, extent = (self.reshape(self.slice(boxes, start, start + 2, 2), 1, QUERIES, 1, 1, 2) for start in (0, 2))
        scaled = self.add("Mul", self.add("Mul", shifts, extent), self.constant(0.5 / POINTS))
        points = self.add("Sub", self.add("Mul", self.add("Add", centre, scaled), self.constant(2)), self.constant(1))
        points = self.reshape(self.add("Transpose", points, perm=[0, 2, 1, 3, 4]), HEADS, QUERIES, count, 2)
        kind = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": 0}
        taken = [
            self.add("GridSample", level, self.slice(points, i * POINTS, (i + 1) * POINTS, 2), **kind)
            for i, level in enumerate(levels)
        ]
        spread = self.add("Transpose", weights, perm=[0, 2, 1, 3])
        weighted = self.add("Mul", self.add("Concat", *taken, axis=-1), self.reshape(spread, HEADS, 1, QUERIES, count))
        summed = self.add("ReduceSum", weighted, self.integers(-1), keepdims=0)  # [HEADS, SIZE, QUERIES]
        joined = self.add("Transpose", self.reshape(summed, 1, WIDTH, QUERIES), perm=[0, 2, 1])
        return self.linear(joined, WIDTH, WIDTH)


def make() -> onnx.ModelProto:
    """Return the model: picture [1, 3, 320, 320] to boxes [1, 100, 4] and classes [1, 100, 80]."""
    graph = Detector()
    levels = _join_scales(graph, _backbone(graph))
    memory = graph.add("Concat", *(graph.rows(level) for level in levels), axis=1)
    query, boxes = _select(graph, memory)
    values = graph.linear(memory, WIDTH, WIDTH)
    starts = np.cumsum([0, *(side**2 for side in SIDES)])
    pictures = [
        graph.reshape(
            graph.add("Transpose", graph.slice(values, int(starts[i]), int(starts[i + 1]), 1), perm=[0, 2, 1]),
            *(HEADS, SIZE, side, side),
        )
        for i, side in enumerate(SIDES)
    ]
    for _ in range(LAYERS):
        places = graph.perceptron(boxes, (4, 2 * WIDTH, WIDTH))
        query = graph.norm(graph.add("Add", query, graph.attend(query, places, QUERIES)), WIDTH)
        sampled = graph.sample(graph.add("Add", query, places), boxes, pictures)
        query = graph.feed(graph.norm(graph.add("Add", query, sampled), WIDTH), "Relu")
        change = graph.perceptron(query, (WIDTH, WIDTH, WIDTH, 4))
        boxes = graph.add("Sigmoid", graph.add("Add", change, _logit(graph, boxes)))
    classes = graph.linear(query, WIDTH, CLASSES)
    outputs = {"boxes": (boxes, FLOAT, [1, QUERIES, 4]), "classes": (classes, FLOAT, [1, QUERIES, CLASSES])}
    return graph.finish("detector", {"picture": (FLOAT, [1, 3, SIDE, SIDE])}, outputs, OPSET)


def _backbone(graph: Detector) -> list[Picture]:
    value = graph.activate(graph.convolve(Picture("picture", 3, SIDE), 32, stride=2))
    value = graph.activate(graph.convolve(value, 64))
    value = Picture(graph.add("MaxPool", value.name, kernel_shape=[2, 2], strides=[2, 2]), 64, value.side // 2)
    found = []
    for channels in (64, 128, 256, 512):
        value = graph.residual(value, channels, stride=1 if channels == 64 else 2)
        value = graph.residual(value, channels, stride=1)
        found.append(value)
    return [graph.convolve(each, WIDTH, kernel=1) for each in found[1:]]


def _join_scales(graph: Detector, found: list[Picture]) -> list[Picture]:
    fine, middle, coarse = found
    tokens, rows = coarse.side**2, graph.rows(coarse)
    places = graph.weights(1, tokens, WIDTH, scale=0.5)
    rows = graph.norm(graph.add("Add", rows, graph.attend(rows, places, tokens)), WIDTH)
    back = graph.add("Transpose", graph.feed(rows, "Gelu"), perm=[0, 2, 1])
    coarse = Picture(graph.reshape(back, 1, WIDTH, coarse.side, coarse.side), WIDTH, coarse.side)
    middle = graph.join(graph.double(coarse), middle)
    fine = graph.join(graph.double(middle), fine)
    middle = graph.join(graph.activate(graph.convolve(fine, WIDTH, stride=2), "SiLU"), middle)
    coarse = graph.join(graph.activate(graph.convolve(middle, WIDTH, stride=2), "SiLU"), coarse)
    return [fine, middle, coarse]


def _select(graph: Detector, memory: str) -> tuple[str, str]:
    """Return the best places' features [1, QUERIES, WIDTH] and boxes [1, QUERIES, 4]."""
    features = graph.norm(graph.linear(memory, WIDTH, WIDTH), WIDTH)
    scores = graph.add("ReduceMax", graph.linear(features, WIDTH, CLASSES), axes=[-1], keepdims=0)
    _, best = graph.add_many("TopK", 2, scores, graph.integers(QUERIES), axis=1)
    rows = graph.reshape(best, 1, QUERIES, 1)
    anchors = graph.constant(np.concatenate([_anchors(side) for side in SIDES], 1))
    boxes = graph.add("Add", graph.perceptron(features, (WIDTH, WIDTH, 4)), anchors)
    query, chosen = (
        graph.add("GatherElements", value, graph.add("Expand", rows, graph.integers(1, QUERIES, width)), axis=1)
        for value, width in ((features, WIDTH), (boxes, 4))
    )
    return query, graph.add("Sigmoid", chosen)


def _anchors(side: int) -> np.ndarray:
    """Return boxes [1, side², 4] around each pixel's centre as logits of centre and size."""
    rows, columns = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    centres = (np.stack([columns, rows], -1).reshape(1, -1, 2) + 0.5) / side
    boxes = np.concatenate([centres, np.full_like(centres, 1.6 / side)], -1)
    return np.asarray(np.log(boxes / (1 - boxes)))


def _logit(graph: Detector, value: str) -> str:
    low = graph.add("Clip", value, graph.constant(1e-5), graph.constant(1 - 1e-5))
    return graph.add("Log", graph.add("Div", low, graph.add("Sub", graph.constant(1), low)))
