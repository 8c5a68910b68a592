"""Expansion of Einsum to matrix products, which have schedules and can be recognised as attention.

``bhid,bhjd->bhij`` is one product for each head. An Einsum that is not a product (a diagonal, or an axis of one that is
broadcast) stays as it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of

_AXES_AS_INPUT = 13
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
_UNNAMED = "0123456789"
"""The labels of axes that an ellipsis stands for."""


@dataclass(frozen=True)
class _Term:
    """A value's name and the labels of its axes."""

    value: str
    labels: str


def einsum(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Einsum to products of one operand after the other.

    Return None if a shape is unknown, or if the equation is not a chain of products.
    """
    shapes = [scope.shape(name) for name in node.input]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or any(scope.element_type(name) not in _FLOATS for name in node.input):
        return None
    parsed = _parse(str(attributes_of(node)["equation"]), [len(shape) for shape in known])
    if parsed is None:
        return None
    operands, wanted = parsed
    sizes: dict[str, int] = {}
    for labels, shape in zip(operands, known, strict=True):
        for label, size in zip(labels, shape, strict=True):
            if not size or sizes.setdefault(label, size) != size:  # Reshape would read 0 as the input's own size
                return None
    writer = _Writer(Composer(scope, node.name or "Einsum"), sizes, wanted)
    first, *rest = (_Term(*each) for each in zip(node.input, operands, strict=True))
    for index, term in enumerate(rest):
        first = writer.multiply(first, term, "".join(later.labels for later in rest[index + 1 :]))
    writer.finish(first, node.output[0])
    return writer.nodes


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[str], str] | None:
    """Return the labels of the operands and of the output, or None if this is not a product of whole tensors."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        return None
    operands = []
    for term, rank in zip(terms, ranks, strict=True):
        unnamed = rank - len(term.replace("...", ""))
        operands.append(term.replace("...", _UNNAMED[len(_UNNAMED) - unnamed :] if unnamed else ""))
        if not 0 <= unnamed < len(_UNNAMED) or len(operands[-1]) != rank or len(set(operands[-1])) < rank:
            return None
    counts = Counter("".join(operands))
    every = "".join(sorted(label for label in counts if label in _UNNAMED))
    alone = "".join(sorted(label for label, count in counts.items() if count == 1 and label not in _UNNAMED))
    wanted = right.replace("...", every) if arrow else every + alone
    return (operands, wanted) if len(set(wanted)) == len(wanted) and set(wanted) <= counts.keys() else None


class _Writer:
    """A writer of the products; ``sizes`` are the labels' sizes, and ``wanted`` are the output's labels."""

    def __init__(self, composer: Composer, sizes: dict[str, int], wanted: str) -> None:
        self._composer, self._sizes, self._wanted = composer, sizes, wanted

    @property
    def nodes(self) -> Nodes:
        """Return the written nodes."""
        return self._composer.nodes

    def multiply(self, left: _Term, right: _Term, later: str) -> _Term:
        """Return the product, summed over the labels that neither the output nor a ``later`` operand has."""
        kept = self._wanted + later
        left, right = self._sum(left, kept + right.labels), self._sum(right, kept + left.labels)
        if any(label in left.labels and label not in right.labels for label in self._wanted[-1:]):
            left, right = right, left  # the last axis of the output is the second factor's columns
        shared = [label for label in left.labels if label in right.labels]
        batch = "".join(label for label in shared if label in kept)
        summed = "".join(label for label in shared if label not in kept)
        rows = "".join(label for label in left.labels if label not in shared)
        columns = "".join(label for label in right.labels if label not in shared)
        made = batch + rows + columns
        if not summed:
            first = self._reshape(left, [*batch, *rows, *[""] * len(columns)])
            return _Term(
                self._composer.add("Mul", first, self._reshape(right, [*batch, *[""] * len(rows), *columns])), made
            )
        # Without a batch the rows may stay separate axes: the second factor is one matrix.
        first = self._reshape(left, [*batch, *([rows] if batch else rows), summed])
        product = self._composer.add("MatMul", first, self._reshape(right, [*batch, summed, columns]))
        is_made = len(columns) == 1 and (not batch or len(rows) == 1)
        return _Term(product if is_made else self._shape_as(product, list(made)), made)

    def finish(self, term: _Term, output: str) -> None:
        """Sum over the remaining labels, bring the axes into the output's order, and name the result ``output``."""
        self._composer.name(self._turn(self._sum(term, self._wanted), self._wanted), output)

    def _sum(self, term: _Term, kept: str) -> _Term:
        axes = [axis for axis, label in enumerate(term.labels) if label not in kept]
        if not axes:
            return term
        if self._composer.scope.opset >= _AXES_AS_INPUT:
            summed = self._composer.add("ReduceSum", term.value, self._integers(axes), keepdims=0)
        else:
            summed = self._composer.add("ReduceSum", term.value, axes=axes, keepdims=0)
        return _Term(summed, "".join(label for label in term.labels if label in kept))

    def _reshape(self, term: _Term, axes: Sequence[str]) -> str:
        """Reshape the value to these axes: an axis joins the axes of its labels; without labels, it has length one."""
        turned = self._turn(term, "".join(axes))
        return turned if all(len(axis) == 1 for axis in axes) else self._shape_as(turned, axes)

    def _shape_as(self, value: str, axes: Sequence[str]) -> str:
        lengths = [math.prod(self._sizes[label] for label in axis) for axis in axes]
        return self._composer.add("Reshape", value, self._integers(lengths))

    def _turn(self, term: _Term, labels: str) -> str:
        order = [term.labels.index(label) for label in labels]
        return term.value if order == sorted(order) else self._composer.add("Transpose", term.value, perm=order)

    def _integers(self, values: Sequence[int]) -> str:
        return self._composer.constant(np.array(values, dtype=np.int64))
