"""A composer for rules of operators with many inputs, with helpers for inputs, constants, refusals and heads."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Scope, attributes_of
from tvmbuild.compiler.importing.refusals import refuse
from tvmbuild.errors import TvmbuildError

_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})
_HINT = "save the model as it was before it was optimised for ONNX Runtime, or replace the operator"


class NodeComposer(Composer):
    """A composer of the nodes that replace one node."""

    def __init__(self, node: onnx.NodeProto, scope: Scope) -> None:
        """Create a composer; the names of its values begin with the node's name."""
        super().__init__(scope, node.name or node.op_type)
        self.node, self.attributes = node, attributes_of(node)
        kinds = [scope.element_type(name) for name in node.input if name]
        self.kind = next((kind for kind in kinds if kind in _FLOATS), TensorProto.FLOAT)
        """The element type of the node's floats: of its first input with a known floating-point type, else float32."""

    def input(self, place: int) -> str:
        """Return the name of an input, or an empty string if the input is left out."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def output(self, place: int) -> str:
        """Return the name of an output, or an empty string if the output is left out."""
        return self.node.output[place] if place < len(self.node.output) else ""

    def number(self, value: float) -> str:
        """Add a scalar constant of the type of the node's floats."""
        return self.constant(np.array(value, helper.tensor_dtype_to_np_dtype(self.kind)))

    def integers(self, *values: int) -> str:
        """Add an int64 constant of one dimension, for shapes and axes."""
        return self.constant(np.array(values, np.int64))

    def reshape(self, value: str, *shape: int) -> str:
        """Add a Reshape to this shape, in which 0 keeps a dimension."""
        return self.add("Reshape", value, self.integers(*shape))

    def known_shape(self, place: int) -> tuple[int, ...] | None:
        """Return the shape of an input, or None if the input is left out or its shape is unknown."""
        return self.scope.shape(self.input(place)) if self.input(place) else None

    def lacks_shapes(self, *places: int) -> bool:
        """Return whether one of these inputs exists and its shape is not known yet."""
        return any(self.input(place) and self.known_shape(place) is None for place in places)

    def split_heads(self, value: str, heads: int, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        """Split [batch, tokens, width] to [batch, heads, tokens, size], or to another order of those axes."""
        return self.add("Transpose", self.reshape(value, 0, 0, heads, -1), perm=list(perm))

    def join_heads(self, value: str) -> str:
        """Join [batch, heads, tokens, size] to [batch, tokens, width]."""
        return self.reshape(self.add("Transpose", value, perm=[0, 2, 1, 3]), 0, 0, -1)

    def spread_heads(self, value: str, shape: tuple[int, int, int, int], heads: int) -> str:
        """Repeat each head of [batch, groups, tokens, size] until there are ``heads`` of them."""
        batch, groups, tokens, size = shape
        if groups == heads:
            return value
        apart = self.unsqueeze(value, [2])
        many = self.add("Expand", apart, self.integers(batch, groups, heads // groups, tokens, size))
        return self.reshape(many, batch, heads, tokens, size)

    def refuse_inputs(self, names: dict[int, str]) -> None:
        """Raise TvmbuildError if the node has one of these inputs; ``names`` are the inputs' names by index."""
        given = [name for place, name in names.items() if self.input(place)]
        if given:
            raise self.refuse(f"its input {given[0]} is not known here")

    def refuse_attributes(self, defaults: dict[str, Any]) -> None:
        """Raise TvmbuildError if one of these attributes has another value than the default."""
        for name, default in defaults.items():
            if self.attributes.get(name, default) != default:
                raise self.refuse(f"its attribute {name} is not known here")

    def refuse_outputs(self, places: Collection[int]) -> None:
        """Raise TvmbuildError if the node has one of these outputs."""
        asked = [self.output(place) for place in places if self.output(place)]
        if asked:
            raise self.refuse(f"its output {asked[0]!r} is asked for")

    def refuse(self, why: str) -> TvmbuildError:
        """Return an error that names the node and the reason ``why``."""
        return refuse(self.node, why, _HINT)
