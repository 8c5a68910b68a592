"""A float model whose values are rounded to 16 bits where a package of that precision stores them.

ONNX Runtime computes it in float32 with roundings between the operators, as a GPU does that adds up in float32. A CPU
also adds up short sums in 16 bits. `compiler/passes/precision.py` decides the same for the package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from ml_dtypes import bfloat16
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.attributes import Precision
from tvmbuild.preparing.keep.groups import Group, list_groups
from tvmbuild.preparing.keep.reduced import Words

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN"})
"""The operators that always run in 16 bits."""
FOLLOWERS = frozenset(
    {
        *("Abs", "Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "DepthToSpace", "Div", "Dropout"),
        *("Erf", "Expand", "Flatten", "Gather", "Gelu", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid"),
        *("HardSwish", "Identity", "LayerNormalization", "LeakyRelu", "Max", "MaxPool", "Mean", "Min", "Mul"),
        *("Neg", "PRelu", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "Relu", "Reshape", "Resize"),
        *("Sigmoid", "Slice", "Softmax", "Softsign", "SpaceToDepth", "Split", "Squeeze", "Sub", "Sum", "Tanh"),
        *("Transpose", "Unsqueeze", "Where"),
    }
)
"""The operators whose results have 16 bits if all their operands have; the others stay in float32."""
_MOVES = frozenset(
    {
        *("Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GlobalMaxPool", "Identity", "MaxPool"),
        *("Neg", "ReduceMax", "ReduceMin", "Relu", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze"),
        *("Transpose", "Unsqueeze"),
    }
)
"""Followers whose results need no rounding, because they are among the operands, or zero."""


@dataclass(frozen=True)
class _Type:
    onnx: int
    numpy: Any
    largest: float


_TYPES: Mapping[Precision, _Type] = {
    "fp16": _Type(TensorProto.FLOAT16, np.float16, 65504.0),
    "bf16": _Type(TensorProto.BFLOAT16, bfloat16, 3.3e38),
}


@dataclass(frozen=True)
class RoundedModel:
    """A float model that is computed in a type of 16 bits."""

    original: Any
    """An ONNX ModelProto whose nodes have unique names."""
    precision: Precision
    fixed: frozenset[str] = frozenset()
    """The names of the nodes that stay in float32 anyway."""

    @property
    def words(self) -> Words:
        """The words of messages about it."""
        return Words(f"in {self.precision}", "in float32")

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of operators with results of 16 bits."""
        rounder = self._make_rounder(self.fixed)
        rounder.build()
        return list_groups(self.original, rounder.rounded)

    def build(self, nodes: frozenset[str]) -> Any:
        """Return the rounded model with the named operators in float32."""
        return self._make_rounder(self.fixed | nodes).build()

    def list_roundings(self, _model: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield nothing: a sum in another order changes a result by much less than its rounding to 16 bits."""
        yield from ()

    @cached_property
    def _floats(self) -> frozenset[str]:
        return _find_floats(self.original)

    def _make_rounder(self, kept: frozenset[str]) -> _Rounder:
        return _Rounder(self.original, _TYPES[self.precision], kept, self._floats)


class _Rounder:
    def __init__(self, original: Any, narrow: _Type, kept: frozenset[str], floats: frozenset[str]) -> None:
        self._original, self._type, self._kept = original, narrow, kept
        self._constants = {
            tensor.name: tensor for tensor in original.graph.initializer if tensor.data_type == TensorProto.FLOAT
        }
        self._floats = floats
        self._narrow: dict[str, str] = {}
        """A value with 16 bits → the name of its rounded value."""
        self._nodes: list[Any] = []
        self._added: list[Any] = []
        self.rounded: set[str] = set()
        """The names of the nodes whose results have 16 bits."""

    def build(self) -> Any:
        for node in self._original.graph.node:
            self._add(node)
        made = onnx.ModelProto.FromString(self._original.SerializeToString())
        del made.graph.node[:]
        made.graph.node.extend(self._nodes)
        made.graph.initializer.extend(self._added)
        for value in made.graph.output:
            if value.name in self._narrow:
                made.graph.node.append(helper.make_node("Identity", [self._narrow[value.name]], [value.name]))
        return made

    def _add(self, node: Any) -> None:
        data = [name for name in node.input if name in self._floats and name not in self._constants]
        is_product = node.op_type in PRODUCTS and bool(data)
        follows = node.op_type in FOLLOWERS and bool(data) and all(name in self._narrow for name in data)
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        if node.name in self._kept or not (is_product or follows):
            copy.input[:] = [self._narrow.get(name, name) for name in node.input]
            self._nodes.append(copy)
            return
        self.rounded.add(node.name)
        copy.input[:] = [self._round_operand(name, is_product=is_product) for name in node.input]
        outputs = [name for name in node.output if name in self._floats]
        copy.output[:] = [f"{name}__wide" if name in outputs else name for name in node.output]
        self._nodes.append(copy)
        for name in outputs:
            exact = node.op_type in _MOVES
            self._narrow[name] = f"{name}__wide" if exact else self._round(f"{name}__wide", f"{name}__narrow")

    def _round_operand(self, name: str, *, is_product: bool) -> str:
        if name in self._constants:
            return self._round_constant(name)
        if name not in self._floats:
            return name
        if name not in self._narrow and is_product:
            return self._round_once(name)
        return self._narrow.get(name, name)

    def _round_once(self, name: str) -> str:
        rounded = f"{name}__operand"
        if not any(rounded in node.output for node in self._nodes):
            self._round(name, rounded)
        return rounded

    def _round(self, name: str, to: str) -> str:
        self._nodes.append(helper.make_node("Cast", [name], [f"{to}__16"], to=self._type.onnx))
        self._nodes.append(helper.make_node("Cast", [f"{to}__16"], [to], to=TensorProto.FLOAT))
        return to

    def _round_constant(self, name: str) -> str:
        rounded = f"{name}__narrow"
        if all(tensor.name != rounded for tensor in self._added):
            values = np.clip(numpy_helper.to_array(self._constants[name]), -self._type.largest, self._type.largest)
            narrow = values.astype(self._type.numpy).astype(np.float32)
            self._added.append(numpy_helper.from_array(narrow, rounded))
        return rounded


def _find_floats(proto: Any) -> frozenset[str]:
    graph = onnx.shape_inference.infer_shapes(proto).graph
    values = [*graph.input, *graph.value_info, *graph.output]
    known = {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT}
    return frozenset(known | {each.name for each in graph.initializer if each.data_type == TensorProto.FLOAT})
