"""One step of a small language model with a cache of keys and values, random weights, as ONNX.

The cache has room for ``LENGTH`` tokens and comes as inputs, [1, 3, LENGTH, 64] a layer; the outputs include the cache
with the step's token. `position` is that token's place; attention ignores later places.
Grouped heads, rotary embeddings, RMSNorm and SwiGLU have SmolLM's sizes, with fewer layers and a smaller vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx
from network_graph import FLOAT, INT64, Graph
from onnx import TensorProto

EPSILON, THETA = 1e-5, 10000.0
LOWEST = np.finfo(np.float32).min
Update = Literal["scatter", "slide", "where"]
"""The way a token enters the cache: by ScatterND; by Concat and Slice, the oldest leaving; or by Where."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a decoder; ``cells`` is the cache's length."""

    layers: int = 6
    heads: int = 9
    groups: int = 3
    size: int = 64
    inner: int = 1536
    words: int = 8192
    cells: int = 256

    @property
    def width(self) -> int:
        """The width of a token."""
        return self.heads * self.size


def make_written_out(update: Update = "scatter", opset: int = 17, **sizes: int) -> onnx.ModelProto:
    """Return the step in the operators that PyTorch's exporters write."""
    return _make(_WrittenOut(Sizes(**sizes), opset, update), opset)


def make_in_operators(opset: int = 24, **sizes: int) -> onnx.ModelProto:
    """Return the step in ONNX's own RMSNormalization, RotaryEmbedding, TensorScatter and Attention."""
    return _make(_InOperators(Sizes(**sizes), opset), opset)


class _Step(Graph):
    """The common part of both spellings. Values are [1, 1, width] between layers, [1, heads, 1, size] in attention."""

    def __init__(self, sizes: Sizes, opset: int) -> None:
        super().__init__()
        self.sizes, self.opset = sizes, opset
        angles = np.arange(sizes.cells)[:, None] * THETA ** (-np.arange(0, sizes.size, 2) / sizes.size)
        self.cosines, self.sines = np.cos(angles), np.sin(angles)

    def begin(self) -> None:
        """Add the values that all layers read."""

    def rms_norm(self, value: str) -> str:
        """Add a norm of the last axis."""
        raise NotImplementedError

    def rotate(self, value: str) -> str:
        """Add the rotation by the position to a value [1, heads, 1, size]."""
        raise NotImplementedError

    def store(self, cache: str, value: str) -> str:
        """Return the cache with the value [1, groups, 1, size] in it."""
        raise NotImplementedError

    def attend(self, query: str, keys: str, values: str) -> str:
        """Return the attention [1, heads, 1, size] of the query to the cache."""
        raise NotImplementedError

    def heads(self, value: str, count: int) -> str:
        """Add a projection of [1, 1, width] to [1, count, 1, size]."""
        sizes = self.sizes
        projected = self.linear(value, sizes.width, count * sizes.size, bias=False)
        return self.add("Transpose", self.reshape(projected, 1, 1, count, sizes.size), perm=[0, 2, 1, 3])

    def feed(self, value: str) -> str:
        """Add SwiGLU."""
        width, inner = self.sizes.width, self.sizes.inner
        gate = self.linear(value, width, inner, bias=False)
        gate = self.add("Mul", gate, self.add("Sigmoid", gate))
        return self.linear(self.add("Mul", gate, self.linear(value, width, inner, bias=False)), inner, width, False)


class _WrittenOut(_Step):
    def __init__(self, sizes: Sizes, opset: int, update: Update) -> None:
        super().__init__(sizes, opset)
        self.update = update

    def begin(self) -> None:
        tables = (np.concatenate([each, each], -1) for each in (self.cosines, self.sines))
        self.turns = [self.add("Gather", self.constant(each), "position", axis=0) for each in tables]
        self.places = self.constant(np.arange(self.sizes.cells), np.int64)
        if self.update == "slide":  # the last stored one is at the end
            first = self.add("Sub", self.integers(self.sizes.cells - 1), "position")
            seen = self.add("GreaterOrEqual", self.places, first)
        else:
            seen = self.add("LessOrEqual", self.places, "position")
        self.mask = self.add("Where", seen, self.constant(0.0), self.constant(LOWEST))

    def rms_norm(self, value: str) -> str:
        squares = self.add("Pow", value, self.constant(2.0))
        axes = {"axes": [-1]} if self.opset < 18 else {}
        mean = self.add("ReduceMean", squares, *([] if axes else [self.integers(-1)]), **axes)
        deviation = self.add("Sqrt", self.add("Add", mean, self.constant(EPSILON)))
        normed = self.add("Mul", value, self.add("Div", self.constant(1.0), deviation))
        return self.add("Mul", self.weights(self.sizes.width, scale=1.0), normed)

    def rotate(self, value: str) -> str:
        half = self.sizes.size // 2
        first, second = (self.slice(value, start, start + half, 3) for start in (0, half))
        turned = self.add("Concat", self.add("Neg", second), first, axis=-1)
        return self.add("Add", self.add("Mul", value, self.turns[0]), self.add("Mul", turned, self.turns[1]))

    def store(self, cache: str, value: str) -> str:
        if self.update == "slide":
            return self.slice(self.add("Concat", cache, value, axis=2), 1, self.sizes.cells + 1, 2)
        if self.update == "where":
            here = self.add("Equal", self.places, "position")
            return self.add("Where", self.reshape(here, 1, 1, self.sizes.cells, 1), value, cache)
        first = self.add("Transpose", cache, perm=[2, 0, 1, 3])
        rows = self.add("Transpose", value, perm=[2, 0, 1, 3])
        stored = self.add("ScatterND", first, self.reshape("position", 1, 1), rows)
        return self.add("Transpose", stored, perm=[1, 2, 0, 3])

    def attend(self, query: str, keys: str, values: str) -> str:
        keys, values = self._repeat(keys), self._repeat(values)
        scores = self.add("MatMul", query, self.add("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.add("Mul", scores, self.constant(self.sizes.size**-0.5))
        weights = self.add("Softmax", self.add("Add", scores, self.mask), axis=-1)
        return self.add("MatMul", weights, values)

    def _repeat(self, cache: str) -> str:
        sizes = self.sizes
        each = sizes.heads // sizes.groups
        apart = self.add("Unsqueeze", cache, self.integers(2))
        many = self.add("Expand", apart, self.integers(1, sizes.groups, each, sizes.cells, sizes.size))
        return self.reshape(many, 1, sizes.heads, sizes.cells, sizes.size)


class _InOperators(_Step):
    def begin(self) -> None:
        self.tables = [self.constant(each) for each in (self.cosines, self.sines)]
        self.place = self.reshape("position", 1, 1)
        seen = self.add("LessOrEqual", self.constant(np.arange(self.sizes.cells), np.int64), "position")
        self.mask = self.reshape(seen, 1, self.sizes.cells)

    def rms_norm(self, value: str) -> str:
        return self.add("RMSNormalization", value, self.weights(self.sizes.width, scale=1.0), epsilon=EPSILON)

    def rotate(self, value: str) -> str:
        return self.add("RotaryEmbedding", value, *self.tables, self.place)

    def store(self, cache: str, value: str) -> str:
        return self.add("TensorScatter", cache, value, "position", axis=2)

    def attend(self, query: str, keys: str, values: str) -> str:
        return self.add("Attention", query, keys, values, self.mask)


def _make(step: _Step, opset: int) -> onnx.ModelProto:
    sizes = step.sizes
    cache, table = [1, sizes.groups, sizes.cells, sizes.size], step.weights(sizes.words, sizes.width, scale=1.0)
    value = step.add("Gather", table, "token")
    step.begin()
    inputs: dict[str, tuple[int, list[int]]] = {"token": (INT64, [1, 1]), "position": (INT64, [1])}
    outputs: dict[str, tuple[str, int, list[int]]] = {}
    for layer in range(sizes.layers):
        normed, stored = step.rms_norm(value), []
        query = step.rotate(step.heads(normed, sizes.heads))
        for kind in ("keys", "values"):
            part = step.heads(normed, sizes.groups)
            stored.append(step.store(f"past_{kind}.{layer}", step.rotate(part) if kind == "keys" else part))
            inputs[f"past_{kind}.{layer}"] = (FLOAT, cache)
            outputs[f"{kind}.{layer}"] = (stored[-1], TensorProto.FLOAT, cache)
        joined = step.reshape(step.attend(query, *stored), 1, 1, sizes.width)  # one token: heads lie side by side
        value = step.add("Add", value, step.linear(joined, sizes.width, sizes.width, bias=False))
        value = step.add("Add", value, step.feed(step.rms_norm(value)))
    logits = step.linear(step.rms_norm(value), sizes.width, sizes.words, bias=False)
    outputs = {"logits": (logits, FLOAT, [1, 1, sizes.words]), **outputs}
    return step.finish("decoder_step", inputs, outputs, opset)
