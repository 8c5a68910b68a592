"""Expansion of Det, Col2Im, Compress and masked ScatterND to operators on elements at known places."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of
from tvmbuild.compiler.importing.refusals import refuse

_MAX_ROWS = 4


def determinant(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Det to the minors of the last row, then of one more row in each step, up to the whole matrix.

    Return None if the shape is unknown. Raises NodeError for matrices of more than four rows.
    """
    composer = NodeComposer(node, scope)
    shape = composer.known_shape(0)
    if shape is None:
        return None
    rows = shape[-1]
    if rows > _MAX_ROWS:
        raise refuse(node, f"its matrices have {rows} rows", f"export matrices of {_MAX_ROWS} rows at most")
    flat = composer.reshape(node.input[0], math.prod(shape[:-2]), rows * rows)
    elements = composer.split(flat, 1, [1] * rows * rows)
    minors: dict[tuple[int, ...], str] = {(column,): elements[(rows - 1) * rows + column] for column in range(rows)}
    for row in reversed(range(rows - 1)):
        minors = {
            columns: _develop(composer, elements[row * rows : (row + 1) * rows], columns, minors)
            for columns in combinations(range(rows), rows - row)
        }
    (result,) = minors.values()
    composer.name(composer.reshape(result, *shape[:-2]), node.output[0])
    return composer.nodes


def _develop(
    composer: NodeComposer, row: list[str], columns: tuple[int, ...], minors: dict[tuple[int, ...], str]
) -> str:
    """Return the minor of these columns, from the next row and the minors without it (Laplace's expansion)."""
    result = ""
    for place, column in enumerate(columns):
        product = composer.add("Mul", row[column], minors[columns[:place] + columns[place + 1 :]])
        result = composer.add("Sub" if place % 2 else "Add", result, product) if result else product
    return result


def columns_to_image(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Col2Im: move blocks that do not overlap; a transposed convolution adds up blocks that do.

    Return None if the shape of the data, the image or the block is unknown.
    """
    composer = NodeComposer(node, scope)
    shape, image, block = composer.known_shape(0), scope.constant(node.input[1]), scope.constant(node.input[2])
    if shape is None or image is None or block is None:
        return None
    rank, size = len(image), math.prod(block)
    strides, dilations = (composer.attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = composer.attributes.get("pads", [0] * 2 * rank)
    channels = shape[1] // size
    room = [
        int(image[axis]) + pads[axis] + pads[rank + axis] - dilations[axis] * (int(block[axis]) - 1) - 1
        for axis in range(rank)
    ]
    counts, rest = zip(*(divmod(free, stride) for free, stride in zip(room, strides, strict=True)), strict=True)
    counts = tuple(count + 1 for count in counts)
    sides = [*block.tolist()]
    if not any(pads) and not any(rest) and strides == sides and set(dilations) == {1}:
        apart = composer.reshape(node.input[0], shape[0], channels, *sides, *counts)
        order = [0, 1, *(place for axis in range(rank) for place in (2 + rank + axis, 2 + axis))]
        moved = composer.add("Transpose", apart, perm=order)
        composer.name(composer.reshape(moved, shape[0], channels, *image.tolist()), node.output[0])
        return composer.nodes
    one_each = np.eye(size, dtype=onnx.helper.tensor_dtype_to_np_dtype(composer.kind)).reshape(size, 1, *sides)
    weights = composer.constant(np.tile(one_each, (channels, *[1] * (rank + 1))))
    added = composer.add(
        "ConvTranspose",
        composer.reshape(node.input[0], shape[0], shape[1], *counts),
        weights,
        group=channels,
        strides=list(strides),
        dilations=list(dilations),
        pads=list(pads),
        output_padding=list(rest),
    )
    composer.name(added, node.output[0])
    return composer.nodes


def compress(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Compress to a Gather of the elements that a constant condition keeps; return None for other conditions."""
    composer, chosen = NodeComposer(node, scope), scope.constant(node.input[1])
    if chosen is None:
        return None
    axis, data = composer.attributes.get("axis"), node.input[0]
    if axis is None:
        data, axis = composer.reshape(data, -1), 0
    kept = composer.integers(*np.flatnonzero(chosen).tolist())
    composer.name(composer.add("Gather", data, kept, axis=axis), node.output[0])
    return composer.nodes


def assign_where(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand a ScatterND of one value to all places where a mask is true, PyTorch's `x[mask] = value`, to a Where.

    The places are NonZero of the mask, and the value is repeated for each of them. Return None for other nodes.
    """
    composer = NodeComposer(node, scope)
    reduction = composer.attributes.get("reduction", "none")
    mask, (value, is_flat) = _find_mask(node, scope), _find_repeated(node, scope)
    data = scope.shape(node.input[0])
    if mask is None or value is None or data is None or reduction not in _REPEATABLE:
        return None
    shape, own = scope.shape(mask), scope.shape(value)
    if not shape or own is None or shape != data[: len(shape)]:
        return None
    own = own[next((place for place, size in enumerate(own) if size != 1), len(own)) :]
    if (
        (is_flat and 1 in own)
        or len(own) > len(data) - _count_varying(mask, scope)
        or own != data[len(data) - len(own) :]
    ):
        return None  # each place has a value of its own
    chosen = composer.reshape(mask, *shape, *[1] * (len(data) - len(shape)))
    one = composer.reshape(value, *own)
    operator = _REPEATABLE[reduction]
    new = composer.add(operator, node.input[0], one) if operator else one
    composer.name(composer.add("Where", chosen, new, node.input[0]), node.output[0])
    return composer.nodes


_REPEATABLE = {"none": "", "add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}
"""The reduction of a ScatterND → the operator that computes it for all elements."""


def _find_mask(node: onnx.NodeProto, scope: Scope) -> str | None:
    """Return the mask whose true places are the indices of the node, or None for other indices."""
    turned = scope.maker(node.input[1], "Transpose")
    found = scope.maker(turned.input[0], "NonZero") if turned is not None else None
    if turned is None or found is None or attributes_of(turned).get("perm", [1, 0]) != [1, 0]:
        return None
    return str(found.input[0]) if scope.element_type(found.input[0]) == TensorProto.BOOL else None


def _find_repeated(node: onnx.NodeProto, scope: Scope) -> tuple[str | None, bool]:
    """Return (the value that is repeated for all updates, or None, whether the updates are a Reshape of these)."""
    flat = scope.maker(node.input[2], "Reshape")
    repeated = scope.maker(node.input[2] if flat is None else flat.input[0], "Expand")
    return None if repeated is None else str(repeated.input[0]), flat is not None


def _count_varying(mask: str, scope: Scope) -> int:
    """Return the number of leading axes of a mask along which it varies: PyTorch expands a mask of rows."""
    rank, expanded = len(scope.shape(mask) or ()), scope.maker(mask, "Expand")
    shape = scope.shape(expanded.input[0]) if expanded is not None else None
    if not shape or len(shape) != rank:
        return rank
    return max((place + 1 for place, size in enumerate(shape) if size != 1), default=0)
