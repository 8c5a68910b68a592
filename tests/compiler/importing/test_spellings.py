"""Scalars given as one element, and the reverse: a form that ONNX Runtime accepts is accepted, with the same result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as HasNoKernel
from quantized_nodes import run_built, run_onnx

from tvmbuild.compiler.importing.spellings import find_rank

pytestmark = pytest.mark.compiler
REFUSALS = (Fail, InvalidArgument, InvalidGraph, HasNoKernel, RuntimeException)
"""The exceptions of ONNX Runtime for a form that it does not accept."""
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@dataclass(frozen=True)
class Case:
    """A node with its inputs in order, which are fed arrays and constants."""

    operator: str
    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    fed: frozenset[int] = frozenset({0})
    opset: int = 17
    outputs: int = 1

    def model(self, prefix: str = "") -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        names = ["" if each is None else f"{prefix}i{place}" for place, each in enumerate(self.inputs)]
        arrays = {name: np.asarray(each) for name, each in zip(names, self.inputs, strict=True) if name}
        fed = {name: array for name, array in arrays.items() if names.index(name) in self.fed}
        results = [f"{prefix}y{index}" for index in range(self.outputs)]
        node = helper.make_node(self.operator, names, results, **self.attributes)
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in fed.items()
        ]
        weights = [numpy_helper.from_array(array, name) for name, array in arrays.items() if name not in fed]
        outputs = [helper.make_empty_tensor_value_info(name) for name in results[:1]]
        graph = helper.make_graph([node], "net", values, outputs, weights)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8), fed


def int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ONES = np.ones((2, 3, 1, 1), np.float32)
CASES = [
    *(Case(f"Reduce{name}", (abs(X) + 1, int64(-1)), opset=18) for name in ("L2", "LogSumExp", "Max", "Mean", "Prod")),
    Case("ReduceSum", (X, int64(0))),
    Case("Clip", (X, np.float32(-1), np.float32(0.5))),
    Case("Clip", (np.float32(3), np.float32(-1), np.float32(0.5))),
    Case("Clip", (X, None, np.float32(0.5)), fed=frozenset({0, 2})),
    Case("ConstantOfShape", (int64(3),), fed=frozenset()),
    Case("CumSum", (X, int64(-1))),
    Case("Dropout", (X, np.float32(0.5), np.array(False))),
    Case("Expand", (X[:1, :1], int64(3))),
    Case("Expand", (np.float32(3), int64(3))),
    Case("Gather", (X, int64(1))),
    Case("OneHot", (int64(0, 2, -1), int64(4), X[0, :2])),
    Case("OneHot", (int64(0, 2, -1), np.float32(4), X[0, 1:3]), {"axis": 0}),
    Case("OneHot", (np.array([0, 2], np.float32), np.float32(4), X[0, :2]), {"axis": -1}, fed=frozenset({0, 2})),
    Case("OneHot", (int64(0, 2, 9), int64(4), int64(5, 7)), {"axis": -2}, fed=frozenset({0, 2})),
    Case("Pad", (X[0], int64(1, 2), np.float32(7))),
    Case("Pad", (X, int64(1, 2), np.float32(7), int64(-1)), opset=18),
    Case("Pow", (X, np.float32(3))),
    Case("Range", (np.float32(0), np.float32(3), np.float32(0.5)), fed=frozenset()),
    Case("Range", (int64(0), int64(7), int64(2)), fed=frozenset()),
    Case("Reshape", (X, int64(12))),
    Case("Resize", (X[0], None, np.float32(2)), {"mode": "nearest"}),
    Case("Resize", (X[0], None, None, int64(8)), {"mode": "nearest"}),
    Case("Slice", (X, int64(1), int64(3), int64(-1), int64(1))),
    Case("Split", (X, int64(3))),
    Case("Squeeze", (ONES, int64(-1))),
    Case("Tile", (X[0], int64(2))),
    Case("TopK", (X, int64(2)), {"axis": -1}, outputs=2),
    Case("Trilu", (X, int64(1))),
    Case("Unsqueeze", (X, int64(-1))),
    Case("Where", (X > 0, X, np.float32(2)), fed=frozenset({0, 1})),
    Case("QuantizeLinear", (X, np.float32(0.1), np.uint8(3))),
    Case("DequantizeLinear", (X.astype(np.int8), np.float32(0.1), np.int8(3))),
    Case("LayerNormalization", (X, np.float32(2), np.float32(1)), {"axis": -1}),
    Case("LayerNormalization", (X.reshape(3, 2, 2), np.float32(2)), {"axis": 1}),
    Case("LayerNormalization", (X, X[0], np.float32(1)), {"axis": -1}),
    Case("InstanceNormalization", (X.reshape(3, 1, 4), np.array([2], np.float32), np.array([1], np.float32))),
    Case("PRelu", (X, np.float32(0.5))),
    Case("Gemm", (X, X.T, np.float32(0.5))),
    Case("STFT", (np.ones((1, 16, 1), np.float32), int64(4), None, int64(8))),
    Case("DFT", (np.ones((1, 8, 1), np.float32), int64(6))),
    Case("DFT", (np.ones((1, 8, 1), np.float32), None, int64(1)), opset=20),
    Case("BlackmanWindow", (int64(8),), fed=frozenset()),
    Case("CenterCropPad", (X[0], int64(2)), {"axes": [0]}, opset=18),
    Case("Add", (X, np.float32(2))),
    Case("Max", (X, np.float32(0.25))),
]


def spell(case: Case) -> Iterator[Case]:
    """Yield the node with each of its single elements as a scalar and as a vector."""
    spelled = []
    for place, value in enumerate(case.inputs):
        single = value is not None and np.size(value) == 1
        both = single and (place not in case.fed or find_rank(case.operator, place) is not None)
        spelled.append([np.reshape(value, shape) for shape in ([], [1])] if both else [value])
    for inputs in product(*spelled):
        yield replace(case, inputs=inputs)


def accepted(case: Case) -> np.ndarray | None:
    try:
        return run_onnx(*case.model())[0]
    except REFUSALS:
        return None


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=[f"{case.operator}-{index}" for index, case in enumerate(CASES)])
def test_both_spellings(case: Case, cpu: tvm.target.Target) -> None:
    spelled = [(each, want) for each in spell(case) if (want := accepted(each)) is not None]
    assert spelled
    joined, fed, wants = onnx.ModelProto(), dict[str, np.ndarray](), []
    for index, (each, want) in enumerate(spelled):
        model, arrays = each.model(f"n{index}.")
        if index:
            for name in ("node", "input", "output", "initializer"):
                getattr(joined.graph, name).extend(getattr(model.graph, name))
        else:
            joined.CopyFrom(model)
        fed |= arrays
        wants.append(want)
    for got, want in zip(run_built(joined, fed, cpu), wants, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
