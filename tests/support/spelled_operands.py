"""The sources of the queries, keys and values of drawn attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

SOURCES = ("inputs", "self", "crossed", "fused", "interleaved", "channels", "flat", "cache", "learnt", "rotated")


class Operands:
    """Nodes, constants and inputs; every method that adds one returns its name.

    Operands have the form [batch, heads, tokens, size].
    """

    def __init__(self, form: Any) -> None:
        """``form`` is a `spelled_attention.Form`."""
        self.form = form
        self.random = np.random.default_rng(form.seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.data: dict[str, np.ndarray] = {}
        self.outputs: list[str] = []

    # ---------------------------------------------------------------------------------------------- nodes

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        return self.add_many(operator, 1, *inputs, **attributes)[0]

    def add_many(self, operator: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with ``outputs`` outputs."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def constant(self, values: Any, kind: str = "float32") -> str:
        """Add a constant."""
        name = f"w{len(self.constants)}"
        self.constants[name] = np.array(values, kind)
        return name

    def number(self, value: float) -> str:
        """Add a scalar, of no dimension or of one."""
        return self.constant(value if self.random.integers(2) else [value])

    def integers(self, *values: int) -> str:
        """Add integers, for shapes and axes."""
        return self.constant(values, "int64")

    def weight(self, *shape: int) -> str:
        """Add random numbers, scaled so that sums over the first axis stay near one."""
        return self.constant(self.random.normal(0, shape[0] ** -0.5 if len(shape) > 1 else 0.1, shape))

    def input(self, name: str, *shape: int) -> str:
        """Add an input of random floats."""
        self.data[name] = self.random.normal(0, 1, shape).astype(np.float32)
        return name

    def output(self, name: str, value: str) -> None:
        """Make the value an output of that name."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(name)

    def unsqueeze(self, value: str, axis: int) -> str:
        """Add a dimension of one, in the opset's form."""
        if self.form.opset < 13:
            return self.add("Unsqueeze", value, axes=[axis])
        return self.add("Unsqueeze", value, self.integers(axis))

    def squeeze(self, value: str, axis: int) -> str:
        """Remove a dimension of one, in the opset's form."""
        if self.form.opset < 13:
            return self.add("Squeeze", value, axes=[axis])
        return self.add("Squeeze", value, self.integers(axis))

    def split(self, value: str, axis: int, *sizes: int) -> list[str]:
        """Cut the value into parts, by Split or Slices."""
        if self.random.integers(2):
            ends = np.cumsum([0, *sizes])
            return [
                self.add("Slice", value, *(self.integers(int(n)) for n in (ends[i], ends[i + 1], axis)))
                for i in range(len(sizes))
            ]
        if self.form.opset < 13:
            return self.add_many("Split", len(sizes), value, axis=axis, split=list(sizes))
        return self.add_many("Split", len(sizes), value, self.integers(*sizes), axis=axis)

    def reduce(self, operator: str, value: str) -> str:
        """Reduce the last axis, in the opset's form."""
        if self.form.opset >= (13 if operator == "ReduceSum" else 18):
            return self.add(operator, value, self.integers(-1), keepdims=1)
        return self.add(operator, value, axes=[-1], keepdims=1)

    # ---------------------------------------------------------------------------------------------- operands

    def make_operands(self) -> tuple[str, str, str]:
        """Return query, keys and values."""
        form = self.form
        if form.source in ("fused", "interleaved"):
            return self._fused()
        if form.source == "channels":
            return self._channels()
        if form.source == "inputs":
            shapes = {"q": (form.heads, form.tokens, form.size)}
            shapes |= {"k": (form.groups, form.keys, form.size), "v": (form.groups, form.keys, form.value_size)}
            query, keys, values = (self.input(name, form.batch, *shape) for name, shape in shapes.items())
            return query, keys, values
        width = 24
        tokens = self.input("x", form.batch, form.tokens, width)
        crossed = form.source in ("crossed", "learnt")
        others = self.input("m", form.batch, form.keys, width) if crossed else tokens
        count = form.keys if crossed else form.tokens
        query = self._project(tokens, width, form.tokens, form.heads, form.size)
        if form.source == "cache" and form.keys > form.tokens:
            keys, values = self._extended(tokens, width)
        else:
            count = form.keys if crossed else form.tokens
            keys = self._project(others, width, count, form.groups, form.size)
            values = self._project(others, width, count, form.groups, form.value_size)
        if form.source == "learnt":
            query = self.constant(self.random.normal(0, 1, (1, form.heads, form.tokens, form.size)))
            if form.batch > 1:
                query = self.add("Expand", query, self.integers(form.batch, 1, 1, 1))
        if form.source == "rotated" and form.size % 2 == 0 and form.operator != "com.microsoft":
            query, keys = (self._rotate(each, form.tokens) for each in (query, keys))
        return query, keys, values

    def part(self, value: str, tokens: int, heads: int, size: int) -> str:
        """Return [batch, tokens, width] as [batch, heads, tokens, size]."""
        apart = self.add("Reshape", value, self.integers(self.form.batch, tokens, heads, size))
        return self.add("Transpose", apart, perm=[0, 2, 1, 3])

    def join(self, value: str) -> str:
        """Return [batch, heads, tokens, size] as [batch, tokens, width]."""
        return self.add("Reshape", self.add("Transpose", value, perm=[0, 2, 1, 3]), self._joined)

    @property
    def _joined(self) -> str:
        return self.integers(0, 0, -1)

    def repeat(self, value: str) -> str:
        """Return keys or values once for each head of queries."""
        form = self.form
        if form.each == 1:
            return value
        apart = self.unsqueeze(value, 2)
        if self.random.integers(2):
            many = self.add("Expand", apart, self.integers(1, 1, form.each, 1, 1))
        else:
            many = self.add("Tile", apart, self.integers(1, 1, form.each, 1, 1))
        return self.add("Reshape", many, self.integers(form.batch, form.heads, form.keys, -1))

    def _project(self, value: str, width: int, tokens: int, heads: int, size: int) -> str:
        form = self.form
        made = self.add("MatMul", value, self.weight(width, heads * size))
        if self.random.integers(2):
            made = self.add("Add", self.weight(heads * size), made)
        if form.source != "flat":
            return self.part(made, tokens, heads, size)
        # torch.nn.MultiheadAttention: tokens first, batch and heads as one axis
        first = self.add("Transpose", made, perm=[1, 0, 2])
        flat = self.add("Reshape", first, self.integers(tokens, form.batch * heads, size))
        turned = self.add("Transpose", flat, perm=[1, 0, 2])
        return self.add("Reshape", turned, self.integers(form.batch, heads, tokens, size))

    def _fused(self) -> tuple[str, str, str]:
        form, width = self.form, 24
        tokens = self.input("x", form.batch, form.tokens, width)
        inner = form.heads * form.size
        made = self.add("Add", self.add("MatMul", tokens, self.weight(width, 3 * inner)), self.weight(3 * inner))
        if form.source == "fused":
            parts = self.split(made, 2, inner, inner, inner)
            query, keys, values = (self.part(each, form.tokens, form.heads, form.size) for each in parts)
            return query, keys, values
        apart = self.add("Reshape", made, self.integers(form.batch, form.tokens, 3, form.heads, form.size))
        turned = self.add("Transpose", apart, perm=[2, 0, 3, 1, 4])
        if self.random.integers(2):
            query, keys, values = (self.add("Gather", turned, self.constant(i, "int64"), axis=0) for i in range(3))
        else:
            query, keys, values = (self.squeeze(each, 0) for each in self.split(turned, 0, 1, 1, 1))
        return query, keys, values

    def _channels(self) -> tuple[str, str, str]:
        """Return query, keys and values of pixels: convolutions, channels before pixels."""
        form, channels = self.form, 6
        picture = self.input("x", form.batch, channels, form.tokens, 1)
        found = []
        for _ in range(3):
            kernel = self.constant(self.random.normal(0, channels**-0.5, (form.heads * form.size, channels, 1, 1)))
            flat = self.add("Conv", picture, kernel, self.weight(form.heads * form.size))
            apart = self.add("Reshape", flat, self.integers(form.batch, form.heads, form.size, form.tokens))
            found.append(self.add("Transpose", apart, perm=[0, 1, 3, 2]))
        return found[0], found[1], found[2]

    def _extended(self, tokens: str, width: int) -> tuple[str, str]:
        """Return keys and values with a cache's in front, and make the new cache an output."""
        form, found = self.form, []
        for name, size in (("k", form.size), ("v", form.value_size)):
            past = self.input(f"past_{name}", form.batch, form.groups, form.keys - form.tokens, size)
            found.append(self.add("Concat", past, self._project(tokens, width, form.tokens, form.groups, size), axis=2))
            self.output(f"present_{name}", found[-1])
        return found[0], found[1]

    def _rotate(self, value: str, tokens: int) -> str:
        half = self.form.size // 2
        angles = np.arange(tokens)[:, None] * 100.0 ** (-np.arange(half) / half)
        cosines, sines = (self.constant(np.tile(each, 2)) for each in (np.cos(angles), np.sin(angles)))
        first, second = self.split(value, 3, half, half)
        turned = self.add("Concat", self.add("Neg", second), first, axis=3)
        return self.add("Add", self.add("Mul", value, cosines), self.add("Mul", turned, sines))
