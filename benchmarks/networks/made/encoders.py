"""Two encoders with random weights as ONNX, in the sizes of DeiT-tiny and of Whisper-tiny's audio encoder.

Attention is written out in MatMul, Softmax and Transpose, as PyTorch's exporters write it. Their time does not
depend on the weights.
"""

from __future__ import annotations

import onnx
from network_graph import FLOAT, Graph

PATCH, SIDE = 16, 224
OPSET = 17


def make_vit_tiny() -> onnx.ModelProto:
    """Return the model: picture [1, 3, 224, 224] to tokens [1, 197, 192]; 12 layers, 3 heads."""
    graph, width, patches = Graph(), 192, (SIDE // PATCH) ** 2
    kernel = graph.weights(width, 3, PATCH, PATCH, scale=0.05)
    value = graph.add("Conv", "picture", kernel, kernel_shape=[PATCH] * 2, strides=[PATCH] * 2)
    value = graph.add("Transpose", graph.reshape(value, 1, width, patches), perm=[0, 2, 1])
    value = graph.add("Concat", graph.weights(1, 1, width, scale=1), value, axis=1)
    value = graph.add("Add", value, graph.weights(1, patches + 1, width, scale=0.02))
    for _ in range(12):
        value = add_layer(graph, value, (patches + 1, width), 3)
    outputs = {"tokens": (graph.norm(value, width), FLOAT, [1, patches + 1, width])}
    return graph.finish("vit_tiny", {"picture": (FLOAT, [1, 3, SIDE, SIDE])}, outputs, OPSET)


def make_audio_encoder(frames: int = 500) -> onnx.ModelProto:
    """Return the model: spectrogram [1, 80, 2 · frames] to features [1, frames, 384]; 4 layers, 6 heads."""
    graph, width = Graph(), 384
    value = _add_convolution(graph, "spectrogram", 80, width, stride=1)
    value = _add_convolution(graph, value, width, width, stride=2)
    value = graph.add("Transpose", value, perm=[0, 2, 1])
    value = graph.add("Add", value, graph.weights(1, frames, width, scale=0.02))
    for _ in range(4):
        value = add_layer(graph, value, (frames, width), 6)
    outputs = {"features": (graph.norm(value, width), FLOAT, [1, frames, width])}
    return graph.finish("audio_encoder", {"spectrogram": (FLOAT, [1, 80, 2 * frames])}, outputs, OPSET)


def add_layer(graph: Graph, value: str, shape: tuple[int, int], heads: int) -> str:
    """Add one layer, norms first, to a value [1, tokens, width]."""
    _, width = shape
    normed = graph.norm(value, width)
    value = graph.add("Add", value, attend(graph, normed, normed, shape, heads))
    inner = graph.gelu(graph.linear(graph.norm(value, width), width, 4 * width))
    return graph.add("Add", value, graph.linear(inner, 4 * width, width))


def attend(graph: Graph, query: str, value: str, shape: tuple[int, int], heads: int) -> str:
    """Add attention of the tokens to themselves, with its projections; keys are those of ``query``."""
    tokens, width = shape
    size = width // heads
    parts = [
        graph.add("Transpose", graph.reshape(graph.linear(each, width, width), 1, tokens, heads, size), perm=perm)
        for each, perm in ((query, [0, 2, 1, 3]), (query, [0, 2, 3, 1]), (value, [0, 2, 1, 3]))
    ]
    scores = graph.add("Mul", graph.add("MatMul", *parts[:2]), graph.constant(size**-0.5))
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), parts[2])
    joined = graph.reshape(graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), 1, tokens, width)
    return graph.linear(joined, width, width)


def _add_convolution(graph: Graph, value: str, channels: int, out: int, stride: int) -> str:
    kernel, shift = graph.weights(out, channels, 3, scale=0.6 * channels**-0.5), graph.weights(out, scale=0.02)
    return graph.gelu(graph.add("Conv", value, kernel, shift, kernel_shape=[3], pads=[1, 1], strides=[stride]))
