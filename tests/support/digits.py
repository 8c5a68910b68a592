"""The small network that most tests build, with the operators of early picture networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUT, OUTPUT = "Input3", "Plus214_Output_0"


def write_digits(path: Path) -> Path:
    """Write a classifier of 28 x 28 pixels, ten classes: the ONNX model zoo's mnist-8 with random weights.

    Names, shapes and attributes are those of that file, as CNTK exported it in 2018: weights among the graph's inputs,
    opset 8, `auto_pad`, a constant that is reshaped. Its Tasks, which every test of tuning searches, are the same too.
    """
    random = np.random.RandomState(8)

    def weights(name: str, *shape: int, fan_in: int = 0) -> onnx.TensorProto:
        deviation = np.sqrt(2 / fan_in) if fan_in else 0.1
        return numpy_helper.from_array(random.normal(0, deviation, shape).astype(np.float32), name)

    constants = [
        weights("Parameter193", 16, 4, 4, 10, fan_in=256),
        weights("Parameter87", 16, 8, 5, 5, fan_in=200),
        weights("Parameter5", 8, 1, 5, 5, fan_in=25),
        weights("Parameter6", 8, 1, 1),
        weights("Parameter88", 16, 1, 1),
        numpy_helper.from_array(np.array([1, 256]), "Pooling160_Output_0_reshape0_shape"),
        numpy_helper.from_array(np.array([256, 10]), "Parameter193_reshape1_shape"),
        weights("Parameter194", 1, 10),
    ]
    convolution = {"kernel_shape": [5, 5], "strides": [1, 1], "auto_pad": "SAME_UPPER", "group": 1, "dilations": [1, 1]}
    pooling = {"pads": [0, 0, 0, 0], "auto_pad": "NOTSET"}
    nodes = [
        _node("Reshape", "Parameter193 Parameter193_reshape1_shape", "Parameter193_reshape1"),
        _node("Conv", "Input3 Parameter5", "Convolution28_Output_0", **convolution),
        _node("Add", "Convolution28_Output_0 Parameter6", "Plus30_Output_0"),
        _node("Relu", "Plus30_Output_0", "ReLU32_Output_0"),
        _node("MaxPool", "ReLU32_Output_0", "Pooling66_Output_0", kernel_shape=[2, 2], strides=[2, 2], **pooling),
        _node("Conv", "Pooling66_Output_0 Parameter87", "Convolution110_Output_0", **convolution),
        _node("Add", "Convolution110_Output_0 Parameter88", "Plus112_Output_0"),
        _node("Relu", "Plus112_Output_0", "ReLU114_Output_0"),
        _node("MaxPool", "ReLU114_Output_0", "Pooling160_Output_0", kernel_shape=[3, 3], strides=[3, 3], **pooling),
        _node("Reshape", "Pooling160_Output_0 Pooling160_Output_0_reshape0_shape", "Pooling160_Output_0_reshape0"),
        _node("MatMul", "Pooling160_Output_0_reshape0 Parameter193_reshape1", "Times212_Output_0"),
        _node("Add", "Times212_Output_0 Parameter194", OUTPUT),
    ]
    picture = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, 1, 28, 28])
    inputs = [helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in constants]
    scores = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "digits", [picture, *inputs], [scores], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3), path)
    return path


def _node(kind: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], output, **attributes)
