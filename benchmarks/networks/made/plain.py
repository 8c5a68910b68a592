"""Plain 3 x 3 convolutions of 32 to 256 channels at 320 x 320 pixels, with random weights, as ONNX.

Such a network is nothing but large convolutions, so its time is that of their arithmetic.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
from network_graph import FLOAT, Graph

SIDE, CHANNELS = 320, (3, 32, 64, 128, 256, 256, 128, 64, 32, 3)


def make() -> onnx.ModelProto:
    """Return the network, whose weights are drawn as He et al. do."""
    graph, value = Graph(), "picture"
    for before, after in pairwise(CHANNELS):
        weights = graph.weights(after, before, 3, 3, scale=float(np.sqrt(2 / (9 * before))))
        value = graph.add("Conv", value, weights, graph.weights(after, scale=0.05), pads=[1] * 4)
        if after != CHANNELS[-1]:
            value = graph.add("Relu", value)
    shapes = [(1, CHANNELS[each], SIDE, SIDE) for each in (0, -1)]
    return graph.finish("plain", {"picture": (FLOAT, shapes[0])}, {"result": (value, FLOAT, shapes[1])}, 17)
