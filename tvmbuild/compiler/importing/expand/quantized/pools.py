"""Expansion of QLinearAveragePool and QLinearGlobalAveragePool, whose channels may come last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from tvmbuild.compiler.importing.expand.quantized.elementwise import Operation, compute, read_operands
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of


def global_average(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand QLinearGlobalAveragePool; return None if channels come last and the shape is not known yet."""
    attributes, (of, to) = attributes_of(node), read_operands(node, 1)
    if not attributes.pop("channels_last", 0):
        return compute(node, scope, of, to, Operation("GlobalAveragePool", attributes))
    rank = len(scope.shape(of[0].value) or ())
    return compute(node, scope, of, to, Operation("GlobalAveragePool", attributes, rank=rank)) if rank else None


def average(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand QLinearAveragePool; return None if the result depends on the shape, which is not known yet."""
    attributes, (of, to) = attributes_of(node), read_operands(node, 1)
    channels_last, shape = attributes.pop("channels_last", 0), scope.shape(of[0].value)
    counts_all = attributes.get("ceil_mode", 0) and attributes.get("count_include_pad", 0)
    if shape is None and (channels_last or counts_all):
        return None
    if shape is not None and counts_all and attributes.get("auto_pad", "NOTSET") == "NOTSET":
        _pad_to_ceiling(attributes, shape[1:-1] if channels_last else shape[2:])
    rank = len(shape) if shape is not None and channels_last else 0
    return compute(node, scope, of, to, Operation("AveragePool", attributes, rank=rank))


def _pad_to_ceiling(attributes: dict[str, Any], sizes: Sequence[int]) -> None:
    """Change ``attributes`` in place: pad to the end of the last windows, and turn `ceil_mode` off.

    ONNX Runtime counts this part of a window in the mean; ONNX's AveragePool does not.
    """
    kernel, rank = attributes["kernel_shape"], len(sizes)
    strides = attributes.get("strides", [1] * rank)
    pads = list(attributes.get("pads", [0] * (2 * rank)))
    for axis, size in enumerate(sizes):
        steps = -(-(size + pads[axis] + pads[rank + axis] - kernel[axis]) // strides[axis])
        if steps * strides[axis] >= size + pads[axis]:  # no window begins in the padding at the end
            steps -= 1
        pads[rank + axis] = max(pads[rank + axis], steps * strides[axis] + kernel[axis] - size - pads[axis])
    attributes |= {"pads": pads, "ceil_mode": 0}
