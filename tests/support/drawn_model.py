"""A model that grows node by node, with random weights and with values for its inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


@dataclass
class DrawnModel:
    """A growing model; ``outputs`` are the names of the values that it returns."""

    random: np.random.Generator
    opset: int = 17
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def pick(self, *choices: Any) -> Any:
        """Draw one of the choices."""
        return choices[int(self.random.integers(len(choices)))]

    def feed(self, *shape: int, low: float = -2.0, high: float = 2.0) -> str:
        """Add an input of random numbers; return its name."""
        return self.given(self.random.uniform(low, high, shape).astype(np.float32))

    def given(self, values: np.ndarray) -> str:
        """Add an input with these values; return its name."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = values
        return name

    def constant(self, values: Any, dtype: str = "float32") -> str:
        """Add a constant; return its name."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(values, dtype)
        return name

    def weight(self, *shape: int) -> str:
        """Add random weights, scaled so that sums over the first axis stay near one; return their name."""
        return self.constant(self.random.uniform(-1, 1, shape) * np.sqrt(3 / max(shape[0], 1)))

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return its name."""
        return self.add_many(operator, 1, *inputs, **attributes)[0]

    def add_many(self, operator: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with ``count`` outputs; return their names."""
        names = [f"v{len(self.nodes)}" if each == 0 else f"v{len(self.nodes)}_{each}" for each in range(count)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def reshape(self, x: str, *shape: int) -> str:
        """Add a reshape."""
        return self.add("Reshape", x, self.constant(shape, "int64"))

    def transpose(self, x: str, *axes: int) -> str:
        """Add a transpose."""
        return self.add("Transpose", x, perm=axes)

    def slice(self, x: str, axis: int, first: int, last: int) -> str:
        """Add a slice of one axis."""
        return self.add("Slice", x, *(self.constant([each], "int64") for each in (first, last, axis)))

    @property
    def model(self) -> onnx.ModelProto:
        """Return the model."""
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                for name, x in self.inputs.items()
            ],
            [onnx.ValueInfoProto(name=name) for name in self.outputs],
            [numpy_helper.from_array(values, name) for name, values in self.weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)
