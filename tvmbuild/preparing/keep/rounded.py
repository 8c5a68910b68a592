"""A float model whose values are rounded as a package of fp16, bf16 or tf32 rounds them.

ONNX Runtime computes it in float32. In 16 bits there are roundings between the operators, where a package stores
values; a GPU adds up in float32, but a CPU also adds up short sums in 16 bits. In tf32 only the factors of products are
rounded; products that are too small for tensor cores stay exact in a package.
`compiler/passes/precision.py` decides the same for the package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import onnx
from ml_dtypes import bfloat16
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.attributes import Precision
from tvmbuild.preparing.keep.groups import Group, list_groups
from tvmbuild.preparing.keep.reduced import Words

Array = np.ndarray[Any, np.dtype[np.float32]]

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN"})
"""The operators whose factors are always rounded."""
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


class _Format(Protocol):
    """A format of floats that is shorter than float32."""

    @property
    def is_stored(self) -> bool:
        """Return whether results are stored in it, too, so that operators after products are computed in it."""

    def round(self, values: Array) -> Array:
        """Return float32 values, rounded."""

    def list_nodes(self, name: str, to: str) -> list[Any]:
        """Return the ONNX nodes that round the float32 tensor ``name`` to the tensor ``to``."""


@dataclass(frozen=True)
class _SixteenBits:
    onnx: int
    numpy: Any
    largest: float
    is_stored: bool = True

    def round(self, values: Array) -> Array:
        return np.clip(values, -self.largest, self.largest).astype(self.numpy).astype(np.float32)

    def list_nodes(self, name: str, to: str) -> list[Any]:
        narrow = helper.make_node("Cast", [name], [f"{to}__16"], to=self.onnx)
        return [narrow, helper.make_node("Cast", [f"{to}__16"], [to], to=TensorProto.FLOAT)]


@dataclass(frozen=True)
class _Tf32:
    """Float32 with 10 bits of mantissa.

    Veltkamp's split rounds x to 11 significant bits: c - (c - x), where c = x (2^13 + 1). (T. J. Dekker, A
    floating-point technique for extending the available precision, Numerische Mathematik 18, 1971.)
    """

    factor: float = 2.0**13 + 1
    largest: float = 2.0**114
    """The largest number whose product with the factor is finite."""
    is_stored: bool = False

    def round(self, values: Array) -> Array:
        bounded = np.clip(values, -self.largest, self.largest).astype(np.float32)
        scaled = bounded * np.float32(self.factor)
        rounded: Array = scaled - (scaled - bounded)
        return rounded

    def list_nodes(self, name: str, to: str) -> list[Any]:
        bounds = [
            self._make_constant(f"{to}__{which}", sign * self.largest) for which, sign in (("low", -1), ("high", 1))
        ]
        return [
            *bounds,
            self._make_constant(f"{to}__factor", self.factor),
            helper.make_node("Clip", [name, f"{to}__low", f"{to}__high"], [f"{to}__bounded"]),
            helper.make_node("Mul", [f"{to}__bounded", f"{to}__factor"], [f"{to}__scaled"]),
            helper.make_node("Sub", [f"{to}__scaled", f"{to}__bounded"], [f"{to}__rest"]),
            helper.make_node("Sub", [f"{to}__scaled", f"{to}__rest"], [to]),
        ]

    def _make_constant(self, name: str, value: float) -> Any:
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.float32(value), name))


_FORMATS: Mapping[Precision, _Format] = {
    "fp16": _SixteenBits(TensorProto.FLOAT16, np.float16, 65504.0),
    "bf16": _SixteenBits(TensorProto.BFLOAT16, bfloat16, 3.3e38),
    "tf32": _Tf32(),
}


@dataclass(frozen=True)
class RoundedModel:
    """A float model that is computed in a precision of shorter floats."""

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
        """The groups of operators that round."""
        rounder = self._make_rounder(self.fixed)
        rounder.build()
        return list_groups(self.original, rounder.rounded)

    def list_keepable(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the nodes whose numbers change if they stay in float32.

        In 16 bits these are all, because a kept node also keeps those after it.
        """
        if _FORMATS[self.precision].is_stored:
            return names
        products = {node for group in self.groups for node in group.nodes}
        return tuple(name for name in names if name in products)

    def build(self, nodes: frozenset[str]) -> Any:
        """Return the rounded model with the named operators in float32."""
        return self._make_rounder(self.fixed | nodes).build()

    def list_roundings(self, _model: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield nothing: a sum in another order changes a result by much less than the precision's rounding."""
        yield from ()

    @cached_property
    def _floats(self) -> frozenset[str]:
        return _find_floats(self.original)

    def _make_rounder(self, kept: frozenset[str]) -> _Rounder:
        return _Rounder(self.original, _FORMATS[self.precision], kept, self._floats)


class _Rounder:
    def __init__(self, original: Any, format_: _Format, kept: frozenset[str], floats: frozenset[str]) -> None:
        self._original, self._format, self._kept = original, format_, kept
        self._constants = {
            tensor.name: tensor for tensor in original.graph.initializer if tensor.data_type == TensorProto.FLOAT
        }
        self._floats = floats
        self._narrow: dict[str, str] = {}
        """A value that is stored in the format → the name of its rounded value."""
        self._nodes: list[Any] = []
        self._added: list[Any] = []
        self.rounded: set[str] = set()
        """The names of the nodes whose operands are rounded."""

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
        if not self._format.is_stored:
            self._nodes.append(copy)
            return
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
        self._nodes += self._format.list_nodes(name, to)
        return to

    def _round_constant(self, name: str) -> str:
        rounded = f"{name}__narrow"
        if all(tensor.name != rounded for tensor in self._added):
            values = self._format.round(numpy_helper.to_array(self._constants[name]))
            self._added.append(numpy_helper.from_array(values, rounded))
        return rounded


def _find_floats(proto: Any) -> frozenset[str]:
    graph = onnx.shape_inference.infer_shapes(proto).graph
    values = [*graph.input, *graph.value_info, *graph.output]
    known = {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT}
    return frozenset(known | {each.name for each in graph.initializer if each.data_type == TensorProto.FLOAT})
