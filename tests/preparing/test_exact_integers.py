"""Integers are summed by their definition, even by an ONNX Runtime whose own sums saturate on this CPU."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.preparing.exact_integers import use_exact_integers
from tvmbuild.preparing.reference import run_onnx

LEFT = np.full((2, 64), 255, "uint8")
WEIGHTS = np.full((64, 8), 127, "int8")


def make_product(zero: np.ndarray | None, left: int = TensorProto.UINT8) -> bytes:
    constants = [numpy_helper.from_array(WEIGHTS, "w")]
    names = ["x", "w"]
    if zero is not None:
        constants.append(numpy_helper.from_array(zero, "z"))
        names += ["", "z"]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", names, ["y"])],
        "net",
        [helper.make_tensor_value_info("x", left, LEFT.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, (2, 8))],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("zero", [None, np.array(-3, "int8"), np.arange(-4, 4).astype("int8")])
def test_the_largest_products_do_not_saturate(zero: np.ndarray | None) -> None:
    want = LEFT.astype("int32") @ (WEIGHTS.astype("int32") - (0 if zero is None else zero.astype("int32")))
    np.testing.assert_array_equal(run_onnx(make_product(zero), {"x": LEFT}, "net")["y"], want)


def test_factors_that_are_computed_do_not_saturate() -> None:
    proto = onnx.load_model_from_string(make_product(None))
    del proto.graph.initializer[:]
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.INT8, WEIGHTS.shape))
    got = run_onnx(proto.SerializeToString(), {"x": LEFT, "w": WEIGHTS}, "net")["y"]
    np.testing.assert_array_equal(got, LEFT.astype("int32") @ WEIGHTS.astype("int32"))


def test_weights_that_two_products_share_are_moved_once() -> None:
    proto = onnx.load_model_from_string(make_product(np.array(1, "int8")))
    again = helper.make_node("MatMulInteger", ["x", "w", "", "z"], ["again"])
    proto.graph.node.append(again)
    proto.graph.output.append(helper.make_tensor_value_info("again", TensorProto.INT32, (2, 8)))
    model = proto.SerializeToString()
    names = [each.name for each in onnx.load_model_from_string(use_exact_integers(model)).graph.initializer]
    assert len(names) == len(set(names))
    both = run_onnx(model, {"x": LEFT}, "net")
    np.testing.assert_array_equal(both["y"], both["again"])


def test_what_has_no_such_operator_or_kernel_stays_as_it_is() -> None:
    floats = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1,)) for name in "x"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1,))],
    )
    model = helper.make_model(floats).SerializeToString()
    assert use_exact_integers(model) is model


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize(("operator", "weights"), [("Conv", (8, 64, 1, 1)), ("MatMul", (64, 8))])
def test_the_largest_products_of_a_qdq_model_do_not_saturate(
    operator: str, weights: tuple[int, ...], optimized: bool
) -> None:
    """ONNX Runtime joins the operators around a product of integers into one whose sums may saturate."""
    constants = {
        "w8": np.full(weights, 127, "int8"),
        "w0": np.zeros(8, "int8"),
        "scale": np.full(8, 1 / 127, "float32"),
        "one": np.float32(1),
        "zero": np.uint8(0),
        "out": np.float32(256),
    }
    axis = 0 if operator == "Conv" else 1
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["x8"]),
            helper.make_node("DequantizeLinear", ["x8", "one", "zero"], ["x_"]),
            helper.make_node("DequantizeLinear", ["w8", "scale", "w0"], ["w"], axis=axis),
            helper.make_node(operator, ["x_", "w"], ["sum"]),
            helper.make_node("QuantizeLinear", ["sum", "out", "zero"], ["sum8"]),
            helper.make_node("DequantizeLinear", ["sum8", "out", "zero"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 64, 2, 2) if operator == "Conv" else (2, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    data = np.full((1, 64, 2, 2) if operator == "Conv" else (2, 64), 255, "float32")
    assert set(run_onnx(model, {"x": data}, "net", optimized=optimized)["y"].flat) == {64 * 256.0}
