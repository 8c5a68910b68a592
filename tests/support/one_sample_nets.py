"""Small graphs of one sample, as exporters write them: some can have a batch, some cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx_graphs import node

RANDOM = np.random.RandomState(0)


class Net(NamedTuple):
    """A graph x → y of one sample, its constants, and x's shape without the batch."""

    nodes: Sequence[onnx.NodeProto]
    constants: dict[str, Any]
    shape: tuple[int, ...]
    opset: int = 17
    ir: int = 9


def weights(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CONV = node("Conv", "x", "w", out="a", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
W = {"w": weights(4, 2, 3, 3)}
PICTURE = (2, 4, 6)


HABITS: dict[str, Net] = {
    "flatten": Net([CONV, node("Flatten", "a", out="b"), node("MatMul", "b", "m")], W | {"m": weights(96, 5)}, PICTURE),
    "reshape to 1, -1": Net([CONV, node("Reshape", "a", "s")], W | {"s": ints(1, -1)}, PICTURE),
    "reshape to -1, n": Net([CONV, node("Reshape", "a", "s")], W | {"s": ints(-1, 96)}, PICTURE),
    "reshape that forbids 0": Net([CONV, node("Reshape", "a", "s", allowzero=1)], W | {"s": ints(1, 8, 12)}, PICTURE),
    "shape shared by two, one of constants": Net(
        [
            node("Reshape", "x", "s", out="a"),
            node("Reshape", "k", "s", out="b"),
            node("Add", "a", "b"),
        ],
        {"s": ints(1, 8, 6), "k": weights(2, 4, 6)},
        PICTURE,
    ),
    "constants written as nodes, weights among inputs": Net(
        [
            helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(ints(1, 96))),
            CONV,
            node("Reshape", "a", "s"),
        ],
        W,
        PICTURE,
        opset=8,
        ir=3,
    ),
    "a shape computed from the input's": Net(
        [
            CONV,
            node("Shape", "x", out="s"),
            node("Gather", "s", "zero", out="n", axis=0),
            node("Concat", "n", "rest", out="t", axis=0),
            node("Reshape", "a", "t"),
        ],
        W | {"zero": ints(0), "rest": ints(-1)},
        PICTURE,
    ),
    "channels shuffled": Net(
        [
            CONV,
            node("Reshape", "a", "five", out="b"),
            node("Transpose", "b", out="c", perm=[0, 2, 1, 3, 4]),
            node("Reshape", "c", "four"),
        ],
        W | {"five": ints(1, 2, 2, 4, 6), "four": ints(1, -1, 4, 6)},
        PICTURE,
    ),
    "squeezed after pooling": Net(
        [CONV, node("GlobalAveragePool", "a", out="b"), node("Squeeze", "b", "axes")], W | {"axes": ints(2, 3)}, PICTURE
    ),
    "slices of channels": Net(
        [
            CONV,
            node("Slice", "a", "from", "to", "axes", out="b"),
            node("Slice", "a", "to", "end", "axes", out="c"),
            node("Mul", "b", "c"),
        ],
        W | {"from": ints(0), "to": ints(2), "end": ints(2**31), "axes": ints(1)},
        PICTURE,
    ),
    "a slice that takes the one sample": Net(
        [CONV, node("Slice", "a", "from", "to", "axes")],
        W | {"from": ints(0, 0, 1), "to": ints(1, 4, 3), "axes": ints(0, 1, -2)},
        PICTURE,
    ),
    "priors joined as a constant": Net(
        [
            CONV,
            node("Reshape", "a", "s", out="b"),
            node("Concat", "b", "priors", out="c", axis=1),
            node("Softmax", "c", axis=-1),
        ],
        W | {"s": ints(1, -1, 4), "priors": weights(1, 7, 4)},
        PICTURE,
    ),
    "priors added and multiplied": Net(
        [CONV, node("Reshape", "a", "s", out="b"), node("Add", "b", "p", out="c"), node("Mul", "c", "q")],
        W | {"s": ints(1, 24, 4), "p": weights(1, 24, 4), "q": weights(4)},
        PICTURE,
    ),
    "resized to a size": Net(
        [CONV, node("Resize", "a", "", "", "sizes", mode="nearest")], W | {"sizes": ints(1, 4, 8, 12)}, PICTURE
    ),
    "an LSTM that begins with zeros": Net(
        [
            node("Transpose", "x", out="t", perm=[1, 0, 2]),
            helper.make_node("LSTM", ["t", "w", "r", "", "", "h", "h"], ["l", "", ""], hidden_size=4),
            node("Squeeze", "l", "one", out="q"),
            node("Transpose", "q", perm=[1, 0, 2]),
        ],
        {"w": weights(1, 16, 6), "r": weights(1, 16, 4), "h": np.zeros((1, 1, 4), "float32"), "one": ints(1)},
        (5, 6),
    ),
}

REFUSED: dict[str, Net] = {
    # by the node that is named
    "Squeeze drop": Net([CONV, node("Squeeze", "a", "axes", name="drop")], W | {"axes": ints(0)}, PICTURE),
    "Reshape all": Net(
        [CONV, node("Reshape", "a", "s", out="b", name="all"), node("Relu", "b")], W | {"s": ints(96)}, PICTURE
    ),
    "Gather first": Net([CONV, node("Gather", "a", "i", name="first")], W | {"i": np.array(0)}, PICTURE),
    "Concat twice": Net([CONV, node("Concat", "a", "a", name="twice", axis=0)], W, PICTURE),
    "ReduceMean over": Net([CONV, node("ReduceMean", "a", name="over", axes=[0], keepdims=1)], W, PICTURE),
    "Softmax mixed": Net(
        [CONV, node("Softmax", "a", out="b", name="mixed", axis=0), node("Add", "b", "a")], W, PICTURE
    ),
    "Transpose that makes b": Net(
        [CONV, node("Transpose", "a", out="b", perm=[1, 0, 2, 3]), node("Reshape", "b", "s")],
        W | {"s": ints(4, 24)},
        PICTURE,
    ),
}
