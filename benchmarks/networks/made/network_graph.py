"""An ONNX graph under construction, for the networks made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """The nodes and constants so far; every method that adds one returns its name."""

    def __init__(self, seed: int = 0) -> None:
        """Seed the random weights."""
        self.random = np.random.RandomState(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        return self.add_many(kind, 1, *inputs, **attributes)[0]

    def add_many(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with ``outputs`` outputs; return their names."""
        name = f"{kind}_{len(self.nodes)}"
        names = [name, *(f"{name}.{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, inputs, names, name, **attributes))
        return names

    def constant(self, values: object, dtype: type = np.float32) -> str:
        """Add a constant."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def integers(self, *values: int) -> str:
        """Add a constant of one dimension, for shapes and axes."""
        return self.constant(values, np.int64)

    def weights(self, *shape: int, scale: float) -> str:
        """Add normally distributed numbers."""
        return self.constant(self.random.normal(0, scale, shape))

    def slice(self, value: str, start: int, stop: int, axis: int) -> str:
        """Return these elements of one axis."""
        return self.add("Slice", value, *(self.constant([each], np.int64) for each in (start, stop, axis)))

    def reshape(self, value: str, *shape: int) -> str:
        """Add a Reshape."""
        return self.add("Reshape", value, self.integers(*shape))

    def linear(self, value: str, width: int, out: int, bias: bool = True) -> str:
        """Add a product with weights [width, out], as MatMul and Add."""
        product = self.add("MatMul", value, self.weights(width, out, scale=width**-0.5))
        return self.add("Add", product, self.weights(out, scale=0.02)) if bias else product

    def norm(self, value: str, width: int) -> str:
        """Add a LayerNormalization of the last axis."""
        ones, zeros = self.constant(np.ones(width)), self.constant(np.zeros(width))
        return self.add("LayerNormalization", value, ones, zeros, axis=-1)

    def gelu(self, value: str) -> str:
        """Add the exact GELU, by Erf."""
        inner = self.add("Erf", self.add("Div", value, self.constant(np.sqrt(2))))
        grown = self.add("Mul", value, self.add("Add", inner, self.constant(1)))
        return self.add("Mul", grown, self.constant(0.5))

    def finish(
        self,
        name: str,
        inputs: Mapping[str, tuple[int, Sequence[int]]],
        outputs: Mapping[str, tuple[str, int, Sequence[int]]],
        opset: int,
    ) -> onnx.ModelProto:
        """Return the checked model: ``inputs`` are name → type, shape; ``outputs`` name → value, type, shape."""
        self.nodes += [helper.make_node("Identity", [value], [out]) for out, (value, *_) in outputs.items()]
        made = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(each, *kind) for each, kind in inputs.items()],
            [helper.make_tensor_value_info(each, *kind) for each, (_, *kind) in outputs.items()],
            self.constants,
        )
        imports = [helper.make_opsetid("", opset)]
        model = helper.make_model(made, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports))
        onnx.checker.check_model(model, full_check=True)
        return model


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
