"""Networks that return the results of several convolutions of the same data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper


def save_convolutions(
    save_model: Callable[..., Path], shape: Sequence[int], outputs: int, cases: Sequence[dict[str, Any]], largest: float
) -> Path:
    """Save a network from ``x`` of that shape to ``y``, a row with the results of all cases, each with bias and ReLU.

    A case is the attributes of a Conv, and ``kernel``, its sizes. Weights are up to ``largest``, biases up to 1.
    """
    random = np.random.RandomState(3)
    nodes, weights = [], {}
    for number, case in enumerate(cases):
        attributes = {**case}
        sizes = (outputs, shape[1] // attributes.get("group", 1), *attributes.pop("kernel"))
        weights[f"w{number}"] = random.uniform(-largest, largest, sizes).astype("float32")
        weights[f"b{number}"] = random.uniform(-1, 1, outputs).astype("float32")
        nodes.append(helper.make_node("Conv", ["x", f"w{number}", f"b{number}"], [f"c{number}"], **attributes))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
        nodes.append(helper.make_node("Flatten", [f"r{number}"], [f"f{number}"]))
    nodes.append(helper.make_node("Concat", [f"f{number}" for number in range(len(cases))], ["y"], axis=1))
    return save_model(nodes, weights, tuple(shape), 17)
