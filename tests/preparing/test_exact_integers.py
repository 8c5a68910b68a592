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
