"""A float32 network made from one whose weights, and perhaps activations, are quantised.

Constant weights that are cast or dequantised become float32 constants; pairs of QuantizeLinear and DequantizeLinear are
removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def make(network: Path, also: Sequence[str] = ()) -> onnx.ModelProto:
    """Return the network at that path in float32; ValueError if something quantised is left.

    The inner values in ``also`` become outputs.
    """
    model = onnx.load(network)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    sources: dict[str, str] = {}
    left = []
    for node in model.graph.node:
        node.input[:] = [sources.get(name, name) for name in node.input]
        value = _compute(node, constants)
        if value is not None:
            constants[node.output[0]] = value
        elif node.op_type in {"QuantizeLinear", "DequantizeLinear"}:
            sources[node.output[0]] = node.input[0]
        else:
            left.append(node)
    _check(left)
    used = {name for node in left for name in node.input}
    del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
    model.graph.node.extend(left)
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in constants.items() if name in used
    )
    types = {value.name: value for value in onnx.shape_inference.infer_shapes(model).graph.value_info}
    model.graph.output.extend(types[name] for name in also)
    onnx.checker.check_model(model, full_check=True)
    return model


def _compute(node: onnx.NodeProto, constants: dict[str, np.ndarray]) -> np.ndarray | None:
    """Return the node's value if it only computes a weight from constants, otherwise None."""
    if not all(name in constants for name in node.input):
        return None
    values = [constants[name] for name in node.input]
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if node.op_type == "Cast" and attributes["to"] == TensorProto.FLOAT and values[0].dtype.itemsize == 1:
        return values[0].astype(np.float32)
    if node.op_type == "Mul" and values[0].dtype == np.float32:
        return np.asarray(values[0] * values[1])
    if node.op_type == "DequantizeLinear":
        axis = attributes.get("axis", 1)
        scale, zero = (_along(each, values[0].ndim, axis) for each in (*values[1:], np.zeros(1, np.int8))[:2])
        return np.asarray((values[0].astype(np.float32) - zero.astype(np.float32)) * scale)
    return None


def _along(values: np.ndarray, dimensions: int, axis: int) -> np.ndarray:
    """Reshape numbers of one axis so that they broadcast over all."""
    if values.size == 1:
        return values.reshape([1] * dimensions)
    return values.reshape([-1 if i == axis % dimensions else 1 for i in range(dimensions)])


def _check(nodes: list[onnx.NodeProto]) -> None:
    quantised = sorted({node.op_type for node in nodes if "Integer" in node.op_type or "Quantize" in node.op_type})
    if quantised:
        raise ValueError(f"there are still {', '.join(quantised)}")
