"""The form that quantised operators get, and their optional inputs and rarer forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from quantized_nodes import BYTES, MICROSOFT, check, run_built

from tvmbuild.compiler.importing.expand.expand import expand_operators
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError

RANDOM = np.random.default_rng(0)


def integers(kind: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max, shape, kind, endpoint=True)


def floats(*values: Any) -> np.ndarray:
    return np.array(values if len(values) > 1 else values[0], "float32")


def make_model(
    nodes: list[onnx.NodeProto], fed: dict[str, np.ndarray], constants: dict[str, np.ndarray], opset: int = 17
) -> onnx.ModelProto:
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in fed.items()
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", values, [helper.make_empty_tensor_value_info("y")], tensors)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def convolution(domain: str = "", **attributes: Any) -> tuple[onnx.NodeProto, dict[str, np.ndarray]]:
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    constants = {
        "xs": floats(0.1),
        "xz": np.uint8(7),
        "w": integers("int8", 4, 3, 3, 3),
        "ws": floats(0.1, 0.2, 0.3, 0.4),
    }
    constants |= {"wz": np.zeros(4, "int8"), "ys": floats(5.0), "yz": np.uint8(99), "b": np.arange(4, dtype="int32")}
    return helper.make_node("QLinearConv", names, ["y"], domain=domain, **attributes), constants


def test_a_convolution_is_one_dequantisation_each_the_operator_and_a_quantisation() -> None:
    node, constants = convolution()
    model = expand_operators(make_model([node], {"x": integers("uint8", 1, 3, 8, 8)}, constants))
    assert [each.op_type for each in model.graph.node] == [*["DequantizeLinear"] * 3, "Conv", "QuantizeLinear"]
    data, weights, bias, conv, last = model.graph.node
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert list(conv.input) == [data.output[0], weights.output[0], bias.output[0]]
    assert list(last.input) == [conv.output[0], "ys", "yz"]
    np.testing.assert_array_equal(known[weights.input[0]], constants["w"])
    np.testing.assert_array_equal(known[bias.input[0]], constants["b"])
    np.testing.assert_array_equal(known[bias.input[1]], constants["xs"] * constants["ws"])
    assert [helper.get_node_attr_value(each, "axis") for each in (weights, bias)] == [0, 0]
    text = import_model(model, "net").mod["main"].script()
    assert (text.count("R.dequantize"), text.count("R.quantize"), text.count("R.astype")) == (3, 1, 0)


def test_channels_that_come_last(cpu: tvm.target.Target) -> None:
    node, constants = convolution(MICROSOFT, channels_last=1, strides=[2, 1])
    fed = {"x": integers("uint8", 1, 8, 6, 3)}
    check((make_model([node], fed, constants), fed), cpu, steps=1)


def test_channels_last_after_an_operator_whose_shape_onnx_does_not_know(cpu: tvm.target.Target) -> None:
    activation = helper.make_node("QLinearSigmoid", ["x", "xs", "xz", "ys", "xz"], ["a"], domain=MICROSOFT)
    pool = helper.make_node(
        "QLinearGlobalAveragePool", ["a", "ys", "xz", "zs", "xz"], ["y"], domain=MICROSOFT, channels_last=1
    )
    constants = {"xs": floats(0.05), "xz": np.uint8(3), "ys": floats(0.005), "zs": floats(0.004)}
    fed = {"x": integers("uint8", 1, 5, 4, 6)}
    check((make_model([activation, pool], fed, constants), fed), cpu, steps=1)


@pytest.mark.parametrize("kind", BYTES)
def test_zero_points_that_are_left_out(cpu: tvm.target.Target, kind: str) -> None:
    fed, scales = {"x": integers(kind, 2, 50)}, {"xs": floats(0.1), "ys": floats(0.07)}
    node = helper.make_node("QLinearLeakyRelu", ["x", "xs", "", "ys"], ["y"], domain=MICROSOFT, alpha=0.5)
    (got,) = run_built(make_model([node], fed, scales), fed, cpu)
    limits, numbers = np.iinfo(kind), fed["x"].astype(float) * 0.1
    want = np.rint(np.where(numbers < 0, 0.5 * numbers, numbers) / 0.07)
    assert got.dtype == kind
    np.testing.assert_allclose(got, np.clip(want, limits.min, limits.max), atol=1)


@pytest.mark.parametrize("opset", [17, 18])
def test_means_over_axes(cpu: tvm.target.Target, opset: int) -> None:  # ONNX Runtime has no code for it
    fed = {"x": integers("uint8", 2, 3, 5)}
    constants = {"xs": floats(0.1), "xz": np.uint8(7), "ys": floats(0.08)}
    names = ["x", "xs", "xz", "ys", "xz"]
    node = helper.make_node("QLinearReduceMean", names, ["y"], domain=MICROSOFT, axes=[0, 2], keepdims=0)
    (got,) = run_built(make_model([node], fed, constants, opset), fed, cpu)
    mean = (fed["x"].astype(float) - 7).mean((0, 2)) * 0.1
    np.testing.assert_allclose(got, np.clip(np.rint(mean / 0.08) + 7, 0, 255), atol=1)
    assert got.dtype == np.uint8


def test_scales_of_half_precision(cpu: tvm.target.Target) -> None:  # ONNX Runtime has no code for it
    fed = {"a": integers("int8", 5, 900), "b": integers("int8", 900, 6)}
    scales = {name: np.float16(value) for name, value in (("as", 0.5), ("bs", 0.25), ("ys", 300.0))}
    zeros = {name: np.int8(value) for name, value in (("az", -3), ("bz", 5), ("yz", 1))}
    node = helper.make_node("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"])
    model = make_model([node], fed, {**scales, **zeros}, 21)
    product = (fed["a"].astype(int) + 3) @ (fed["b"].astype(int) - 5)
    (got,) = run_built(model, fed, cpu)
    np.testing.assert_array_equal(got, np.clip(np.rint(product * 0.125 / 300.0) + 1, -128, 127))


@pytest.mark.parametrize(("meant", "opset"), [(12, 17), (13, 12)])
def test_a_softmax_of_another_opset_is_refused_where_it_matters(meant: int, opset: int) -> None:
    constants = {"xs": floats(0.1), "xz": np.uint8(7), "ys": floats(1 / 256), "yz": np.uint8(0)}
    names, fed = ["x", "xs", "xz", "ys", "yz"], {"x": integers("uint8", 2, 3, 5)}
    for axis in (-1, 2):
        node = helper.make_node("QLinearSoftmax", names, ["y"], domain=MICROSOFT, axis=axis, opset=meant)
        expanded = expand_operators(make_model([node], fed, constants, opset))
        assert [each.op_type for each in expanded.graph.node] == ["DequantizeLinear", "Softmax", "QuantizeLinear"]
    node = helper.make_node("QLinearSoftmax", names, ["y"], domain=MICROSOFT, axis=1, opset=meant)
    with pytest.raises(TvmbuildError, match=rf"the operator QLinearSoftmax .* of opset {meant} in a model of {opset}"):
        expand_operators(make_model([node], fed, constants, opset))


@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_of_blocks_are_refused(operator: str) -> None:
    fed = {"x": np.zeros((4, 8), "float32" if operator == "QuantizeLinear" else "int8")}
    node = helper.make_node(operator, ["x", "s", "z"], ["y"], "/deep/q", axis=1, block_size=4)
    model = make_model([node], fed, {"s": np.ones((4, 2), "float32"), "z": np.zeros((4, 2), "int8")}, 21)
    with pytest.raises(TvmbuildError) as caught:
        import_model(model, "net")
    assert (
        caught.value.message
        == f"net: the operator {operator} (node '/deep/q') cannot be built: its scales are blockwise"
    )
    assert caught.value.hint is not None
    assert "int8 or uint8" in caught.value.hint


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1"])
@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_small_types_are_refused(operator: str, kind: str) -> None:
    small = TensorProto.DataType.Value(kind)
    output_dtype = {"output_dtype": small} if operator == "QuantizeLinear" else {}
    node = helper.make_node(operator, ["x", "s"], ["y"], **output_dtype)
    model = make_model([node], {"x": np.ones(2, "float32")}, {"s": floats(1.0)}, 23)
    if operator == "DequantizeLinear":
        model.graph.input[0].type.tensor_type.elem_type = small
    with pytest.raises(TvmbuildError, match=f"net: the operator {operator} .* of the type {kind.lower()}"):
        import_model(model, "net")


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT8"])
@pytest.mark.parametrize(("blocks", "domain"), [(False, ""), (True, ""), (False, MICROSOFT)])
def test_weights_of_any_form_are_known(cpu: tvm.target.Target, kind: str, blocks: bool, domain: str) -> None:
    """In older models onnxruntime.quantization writes the operator of its own domain for types of 4 bits."""
    weights = helper.make_tensor("w", TensorProto.DataType.Value(kind), [2, 4], [1, 2, 3, 4, 5, 6, 7, 0])
    scales = np.array([[0.5, 2.0], [1.0, 4.0]], "float32") if blocks else floats(0.5)
    attributes = {"axis": 1, "block_size": 2} if blocks else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], domain=domain, **attributes),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    fed = {"x": np.zeros((2, 4), "float32")}
    model = make_model(nodes, fed, {"s": scales}, 17 if domain else 21)
    model.graph.initializer.append(weights)
    factors = np.repeat(scales, 2, axis=1) if blocks else scales
    np.testing.assert_array_equal(run_built(model, fed, cpu)[0], np.array([[1, 2, 3, 4], [5, 6, 7, 0]]) * factors)


def test_a_precision_of_another_type_is_refused() -> None:
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], precision=TensorProto.FLOAT16)
    with pytest.raises(TvmbuildError, match=r"QuantizeLinear \(output 'y'\) cannot be built: its `precision`"):
        expand_operators(make_model([node], {"x": np.ones(2, "float32")}, {"s": floats(1.0)}, 23))


def test_weights_of_four_bits_are_refused() -> None:
    weights = {"b": np.zeros((8, 1, 8), "uint8"), "s": np.ones(8, "float32")}
    node = helper.make_node("MatMulNBits", ["x", "b", "s"], ["y"], domain=MICROSOFT, K=16, N=8, bits=4, block_size=16)
    with pytest.raises(TvmbuildError) as caught:
        import_model(make_model([node], {"x": np.ones((1, 16), "float32")}, weights), "net")
    assert caught.value.message == (
        "net: the operator MatMulNBits (output 'y') of com.microsoft cannot be built: "
        "its weights have 4 bits and scales of blocks"
    )
    assert caught.value.hint is not None
    assert "int8 or uint8" in caught.value.hint


def test_an_operator_of_another_domain_is_no_operator_of_onnx() -> None:
    node = helper.make_node("QLinearConv", ["x"], ["y"], domain="own")
    model = make_model([node], {"x": integers("uint8", 1, 3, 8, 8)}, {})
    assert [each.domain for each in expand_operators(model).graph.node] == ["own"]
