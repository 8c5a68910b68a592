"""Expansion of DeformConv: GridSample reads each tap where its offset points, and a 1 x 1 convolution adds them up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import refuse

_LINEAR_SINCE = 20
"""The first opset in which GridSample calls its mode `linear`, and no longer `bilinear`."""


def deformable_convolution(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand DeformConv of pictures; return None if a shape is unknown yet. Raises NodeError for other ranks.

    DeformConv has offsets [batch, groups * taps * 2, height, width], the one down before the one to the right.
    Places are computed in float32, also between 16-bit floats: float16 has eight numbers between pixels 200 and 201.
    """
    composer = NodeComposer(node, scope)
    attributes = composer.attributes
    shape, weights, offsets = (composer.known_shape(place) for place in (0, 1, 2))
    if shape is None or weights is None or offsets is None:
        return None
    if len(shape) != 4:
        raise refuse(
            node, f"its data have {len(shape)} axes", "export it with four axes: batch, channels, rows, columns"
        )
    batch, channels, *sizes = shape
    kernel, (rows, columns) = weights[2:], offsets[2:]
    taps, parts = math.prod(kernel), attributes.get("offset_group", 1)
    strides, dilations = (attributes.get(name, [1, 1]) for name in ("strides", "dilations"))
    begins = attributes.get("pads", [0] * 4)[:2]
    apart = composer.reshape(node.input[2], batch * parts, taps, 2, rows * columns)
    wide = composer.kind if composer.kind == TensorProto.DOUBLE else TensorProto.FLOAT
    dtype = helper.tensor_dtype_to_np_dtype(wide)
    # The Cast is there for float32, too: passes that reduce precision leave it, and the operators after it, in float32.
    apart = composer.add("Cast", apart, to=wide)
    axes = []
    for axis, offset in enumerate(composer.split(apart, 2, [1, 1])):
        tap = np.indices(kernel)[axis].reshape(-1, 1, 1) * dilations[axis] - begins[axis]
        start = np.indices((rows, columns))[axis] * strides[axis]
        # GridSample's places are from -1, the left edge of the first pixel, to 1.
        origin = (2 * (tap + start) + 1) / sizes[axis] - 1
        scaled = composer.add("Mul", offset, composer.constant(np.array(2 / sizes[axis], dtype)))
        axes.append(composer.add("Add", scaled, composer.constant(origin.astype(dtype).reshape(taps, 1, -1))))
    flat = [composer.reshape(axis, batch * parts, taps * rows, columns) for axis in reversed(axes)]
    mode = "linear" if scope.opset >= _LINEAR_SINCE else "bilinear"
    data = composer.reshape(node.input[0], batch * parts, channels // parts, *sizes)
    values = composer.add("GridSample", data, composer.stack(flat, 3), mode=mode)
    if composer.input(4):
        mask = composer.reshape(composer.input(4), batch * parts, 1, taps * rows, columns)
        values = composer.add("Mul", values, mask)
    _add_up(composer, composer.reshape(values, batch, channels * taps, rows, columns), weights)
    return composer.nodes


def _add_up(composer: NodeComposer, values: str, weights: Sequence[int]) -> None:
    """Add the convolution of all taps, which are channels now."""
    flat = composer.reshape(composer.input(1), weights[0], math.prod(weights[1:]), 1, 1)
    bias = [composer.input(3)] if composer.input(3) else []
    summed = composer.add("Conv", values, flat, *bias, group=composer.attributes.get("group", 1))
    composer.name(summed, composer.node.output[0])
