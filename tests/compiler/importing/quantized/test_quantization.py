"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear in all their forms: ONNX Runtime's numbers to the bit."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import TensorProto, helper, numpy_helper
from quantized_nodes import BYTES, MICROSOFT, Drawn, check, run_built

from tvmbuild.compiler.importing.importer import import_model

Case: TypeAlias = tuple[onnx.ModelProto, dict[str, np.ndarray]]
FEW = settings(max_examples=draws(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
OPSETS = (10, 13, 19, 21, 23)


def draw_form(drawn: Drawn, opset: int, domain: str) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Return the data's shape, the parameters' shape, and the attribute that names their axis."""
    shape = drawn.pick((), (7,), (3, 5), (1, 3, 4, 6), (2, 8, 3))
    if not shape or (opset < 13 and not domain) or drawn.pick(True, False):
        return shape, () if opset < 13 or domain else drawn.pick((), (1,)), {}
    axis = drawn.pick(*range(-len(shape), len(shape)))
    attributes = {} if axis == 1 and not domain else {"axis": axis}
    return shape, (shape[axis],), attributes


@st.composite
def quantized(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    opset, domain = drawn.pick(*OPSETS), drawn.pick("", "", MICROSOFT)
    shape, per, attributes = draw_form(drawn, opset, domain)
    kinds = [*BYTES, *(("int16", "uint16") if opset >= 21 or domain else ())]
    kind = drawn.pick(*kinds)
    half = opset >= 19 and not domain and kind in BYTES and drawn.pick(False, False, True)
    steps = drawn.random.integers(-600, 600, shape) / drawn.pick(1, 2, 2, 7)  # halves are ties
    scale = drawn.pick(0.25, 0.1, 1e-3)
    drawn.fed["x"] = np.asarray(steps * scale, "float16" if half else "float32")
    scales = np.full(per, scale) * drawn.random.integers(1, 3, per)
    names = ["x", drawn.constant("s", scales, "float16" if half else "float32")]
    if drawn.pick(True, True, False):
        names.append(drawn.zero_point("z", kind, per))
    elif opset >= 21 and not domain and drawn.pick(True, False):
        attributes["output_dtype"] = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    node = helper.make_node("QuantizeLinear", names, ["y"], domain=domain, **attributes)
    return drawn.model(node, opset), drawn.fed


@given(drawn=quantized())
@FEW
def test_quantize(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu)


@pytest.mark.parametrize("opset", OPSETS)
def test_quantize_integers(cpu: tvm.target.Target, opset: int) -> None:  # ONNX Runtime has no code for it
    drawn = {"x": np.arange(-600, 600, dtype="int32")}
    tensors = [numpy_helper.from_array(np.array(2.0, "float32"), "s"), numpy_helper.from_array(np.int8(3), "z")]
    values = [helper.make_tensor_value_info("x", TensorProto.INT32, [1200])]
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    graph = helper.make_graph([node], "node", values, [helper.make_empty_tensor_value_info("y")], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    (got,) = run_built(model, drawn, cpu)
    np.testing.assert_array_equal(got, np.clip(np.rint(drawn["x"] / 2) + 3, -128, 127).astype("int8"))


@st.composite
def dequantized(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    opset, domain = drawn.pick(*OPSETS), drawn.pick("", "", MICROSOFT)
    shape, per, attributes = draw_form(drawn, opset, domain)
    wide = ("int16", "uint16") if opset >= 21 or domain else ()
    kind = drawn.pick(*BYTES, "int32", *wide)
    half = opset >= 19 and not domain and kind in BYTES and drawn.pick(False, False, True)
    names = [drawn.tensor("x", shape, kind), drawn.scale("s", per)]
    if half:
        drawn.constants["s"] = drawn.constants["s"].astype("float16")
    if drawn.pick(True, True, False):
        names.append(drawn.constant("z", np.zeros(per), kind) if kind == "int32" else drawn.zero_point("z", kind, per))
    node = helper.make_node("DequantizeLinear", names, ["y"], domain=domain, **attributes)
    return drawn.model(node, opset), drawn.fed


@given(drawn=dequantized())
@FEW
def test_dequantize(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu)


@pytest.mark.parametrize("span", [(-1.0, 3.0), (0.5, 2.0), (-3.0, -1.0), (0.0, 0.0), (-1e-30, 1e-30)])
@pytest.mark.parametrize("shape", [(1, 3, 4), (9,), (40, 30)])
def test_dynamic_quantize(cpu: tvm.target.Target, span: tuple[float, float], shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(0).uniform(*span, shape).astype("float32")
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("y", "scale", "zero")]
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    graph = helper.make_graph([node], "node", values, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check((model, {"x": data}), cpu)


def test_weights_that_are_quantised_in_the_model_stay_integers(cpu: tvm.target.Target) -> None:
    weights = helper.make_tensor("w", TensorProto.FLOAT, [2, 3], [0.1, -0.2, 0.3, 0.4, 0.5, -0.6])
    scale = helper.make_tensor("s", TensorProto.FLOAT, [], [0.1])
    zero = helper.make_tensor("z", TensorProto.INT8, [], [0])
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], [weights, scale, zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    text = import_model(model, "net").mod["main"].script()
    assert (text.count("R.quantize"), text.count("R.dequantize")) == (0, 1)
    (got,) = run_built(model, {"x": np.zeros((2, 3), "float32")}, cpu)
    np.testing.assert_allclose(got, [[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]], rtol=1e-6)
