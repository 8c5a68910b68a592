"""A quantised model as somebody else would add it up: what a rounding of its sums decides, it decides otherwise."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

_ROUNDING = 2.0**-21
"""What the order of a sum of some hundred float32 products changes of it."""


def shake(model: bytes) -> bytes:
    """Return the model with the scales of its weights changed by a rounding error, up and down in turn.

    A model whose weights come without DequantizeLinear is returned as it is.
    """
    proto = onnx.load_model_from_string(model)
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    scales = [
        node.input[1] for node in proto.graph.node if node.op_type == "DequantizeLinear" and node.input[0] in constants
    ]
    for index, name in enumerate(dict.fromkeys(scales)):
        if name not in constants or constants[name].data_type != TensorProto.FLOAT:
            continue
        tensor, factor = constants[name], np.float32(1 + (_ROUNDING if index % 2 else -_ROUNDING))
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * factor, name))
    shaken: bytes = proto.SerializeToString(deterministic=True)
    return shaken
