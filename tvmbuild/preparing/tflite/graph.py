"""The ONNX graph under construction: constants, nodes, and the real numbers behind quantised tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmbuild.preparing.tflite.reader import Operator, Tensor

OPSET, IR_VERSION = 17, 8


@dataclass
class OnnxGraph:
    """The nodes and constants so far; tensors keep names, layout (NHWC) and, if quantised, integers."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    reals: dict[str, str] = field(default_factory=dict)
    """Quantised tensor → name of the real numbers that its integers represent."""

    def add(self, kind: str, *inputs: str, count: int = 1, **attributes: Any) -> str:
        """Add a node and return its output's name, or the first of several."""
        return self.add_all(kind, inputs, count, **attributes)[0]

    def add_all(self, kind: str, inputs: tuple[str, ...], count: int, **attributes: Any) -> list[str]:
        """Add a node and return the names of its outputs."""
        name = f"{kind}_{len(self.nodes)}"
        outputs = [f"{name}_{index}" for index in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name, **attributes))
        return outputs

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Add a constant and return its name."""
        array = np.asarray(values, dtype)
        name = f"constant_{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        return name

    def read(self, tensor: Tensor) -> str:
        """Return the name of the tensor's own elements."""
        if tensor.data is None:
            return tensor.name
        if tensor.name not in self.constants:
            self.constants[tensor.name] = numpy_helper.from_array(tensor.data, tensor.name)
        return tensor.name

    def real(self, tensor: Tensor) -> str:
        """Return the name of the tensor's real numbers."""
        if not tensor.is_quantised:
            return self.read(tensor)
        if tensor.name not in self.reals:
            self.reals[tensor.name] = self._dequantise(self.read(tensor), tensor, tensor.axis)
        return self.reals[tensor.name]

    def weights(self, tensor: Tensor, values: np.ndarray) -> str:
        """Return the real numbers of constant weights in their new layout, output channels first."""
        name = self.constant(values, values.dtype)
        return self._dequantise(name, tensor, 0) if tensor.is_quantised else name

    def write(self, tensor: Tensor, name: str) -> None:
        """Make real numbers the value of a tensor; a quantised tensor gets their integers."""
        if tensor.is_quantised:
            self.nodes.append(helper.make_node("QuantizeLinear", [name, *self._scales(tensor)], [tensor.name]))
        else:
            self.nodes.append(helper.make_node("Identity", [name], [tensor.name]))

    def write_plain(self, tensor: Tensor, name: str) -> None:
        """Make a value the tensor's value unchanged."""
        self.nodes.append(helper.make_node("Identity", [name], [tensor.name]))

    def real_inputs(self, operator: Operator) -> list[str]:
        """Return the real numbers of all inputs."""
        return [self.real(tensor) for tensor in operator.inputs if tensor is not None]

    def reshape(self, name: str, shape: tuple[int, ...]) -> str:
        """Reshape a value."""
        return self.add("Reshape", name, self.constant(shape, np.int64))

    def channels_first(self, name: str) -> str:
        """Turn NHWC into NCHW."""
        return self.add("Transpose", name, perm=[0, 3, 1, 2])

    def channels_last(self, name: str) -> str:
        """Turn NCHW into NHWC."""
        return self.add("Transpose", name, perm=[0, 2, 3, 1])

    def _dequantise(self, name: str, tensor: Tensor, axis: int) -> str:
        attributes = {"axis": axis} if tensor.scale is not None and tensor.scale.size > 1 else {}
        return self.add("DequantizeLinear", name, *self._scales(tensor), **attributes)

    def _scales(self, tensor: Tensor) -> list[str]:
        assert tensor.scale is not None  # noqa: S101 - who calls has asked
        assert tensor.zero is not None  # noqa: S101 - as above
        scale = tensor.scale if tensor.scale.size > 1 else tensor.scale[0]
        zero = np.broadcast_to(tensor.zero, tensor.scale.shape) if tensor.scale.size > 1 else tensor.zero[0]
        names = [self.constant(scale)]
        return names if tensor.dtype == np.int32 else [*names, self.constant(zero, tensor.dtype)]
