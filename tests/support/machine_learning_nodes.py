"""One node of ai.onnx.ml beside ONNX Runtime: a model of it, its inputs, and both sides' numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper
from quantized_nodes import run_built, run_onnx

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""The values of ``post_transform``. PROBIT turns a number near 0.5 into the difference of two near ones."""


def make_model(
    operator: str,
    fed: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any],
    outputs: Sequence[str] = ("y",),
    version: int = 3,
) -> onnx.ModelProto:
    """Return the model of one node, whose first output is text if its classes are."""
    node = helper.make_node(operator, list(fed), list(outputs), "node", domain=DOMAIN, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in fed.items()
    ]
    values = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    if "classlabels_strings" in attributes and outputs[0]:
        values[0] = helper.make_tensor_value_info(outputs[0], TensorProto.STRING, None)
    graph = helper.make_graph([node], "net", inputs, values)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def join(models: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """Return one model of all their nodes, which take the same inputs: one is built faster than many."""
    result = onnx.ModelProto()
    result.CopyFrom(models[0])
    del result.graph.node[:], result.graph.output[:]
    for number, model in enumerate(models):
        for node in model.graph.node:
            node.name += str(number)
            node.output[:] = [f"{name}{number}" for name in node.output]
        for value in model.graph.output:
            value.name += str(number)
        result.graph.node.extend(model.graph.node)
        result.graph.output.extend(model.graph.output)
    return result


def draw_rows(seed: int, shape: Sequence[int] = (7, 5), dtype: str = "float32") -> np.ndarray:
    """Return quarters from -1 to 1, or integers from -4 to 4: many are equal, and some zero."""
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return values.astype(dtype) if np.issubdtype(dtype, np.integer) else (values / 4).astype(dtype)


def check(model: onnx.ModelProto, fed: Mapping[str, np.ndarray], cpu: tvm.target.Target, rtol: float = 1e-4) -> None:
    """Assert that the built model gives ONNX Runtime's outputs, integers exactly."""
    for got, want in zip(run_built(model, fed, cpu), run_onnx(model, fed), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=0 if want.dtype.kind in "iu" else rtol, atol=rtol / 10)
