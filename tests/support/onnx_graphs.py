"""Small graphs x → nodes → y, with their weights and the input's shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

Graph = tuple[Sequence[onnx.NodeProto], dict[str, np.ndarray], tuple[int, ...]]


def node(kind: str, *inputs: str, out: str = "y", **attributes: Any) -> onnx.NodeProto:
    """Return a node of one output."""
    return helper.make_node(kind, list(inputs), [out], **attributes)


RELU = node("Relu", "a")


def conv(
    random: np.random.RandomState,
    channels: int,
    out: int,
    kernel: int,
    size: tuple[int, ...],
    *after: onnx.NodeProto,
    **given: Any,
) -> Graph:
    """Return a convolution with bias, and the nodes ``after`` it, which read "a"."""
    shape = (out, channels // given.get("group", 1), *([kernel] * len(size)))
    weights = {name: random.uniform(-1, 1, each).astype("float32") for name, each in (("w", shape), ("b", (out,)))}
    nodes = [node("Conv", "x", "w", "b", out="a" if after else "y", **given), *after]
    return nodes, weights, (1, channels, *size)
