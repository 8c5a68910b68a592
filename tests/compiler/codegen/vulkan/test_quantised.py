"""Quantised graphs on lavapipe: ONNX Runtime's integers to the last bit, and a whole network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnxruntime.quantization import QuantFormat, QuantType
from quantised_graphs import CONVOLUTIONS, Case, convolution, moved, product, run_optimized
from quantized_nets import find_steps, quantize_net, write_float_net
from quantized_nodes import run_built
from vulkan_kernels import lavapipe

from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.passes.int8.lower_qdq_to_int8 import lower_qdq_to_int8
from tvmbuild.preparing.simplify import simplify

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]


def check(case: Case, target: tvm.target.Target | None = None) -> None:
    model, shape = case
    sums = operator_calls(lower_qdq_to_int8(import_onnx(model).mod), "relax.nn.conv2d")
    assert {str(call.ty.dtype) for call in sums} <= {"int32"}
    x = np.random.RandomState(1).uniform(-3, 3, shape).astype(np.float32)
    want = run_optimized(model, {"x": x})["y"]
    assert np.unique(want).size > 10
    (got,) = run_built(onnx.load_from_string(model), {"x": x}, target or lavapipe())
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, activations: str) -> None:
    check(convolution(np.random.RandomState(0), activations, **CONVOLUTIONS[name]))


@pytest.mark.parametrize(("transposed", "activations"), [(0, "uint8"), (1, "int8")])
def test_products(transposed: int, activations: str) -> None:
    check(product(np.random.RandomState(3), activations, transposed))


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_by_dot_products(name: str, activations: str) -> None:
    check(convolution(np.random.RandomState(0), activations, **CONVOLUTIONS[name]), dotting())


@pytest.mark.parametrize(("transposed", "activations"), [(0, "uint8"), (1, "int8")])
def test_products_by_dot_products(transposed: int, activations: str) -> None:
    check(product(np.random.RandomState(3), activations, transposed), dotting())


def dotting() -> tvm.target.Target:
    return lavapipe(supports_integer_dot_product=True)


def test_pools_transposes_and_concatenations() -> None:
    check(moved(np.random.RandomState(5)))


@pytest.mark.parametrize(
    ("form", "activations", "dots"),
    [
        (QuantFormat.QDQ, QuantType.QUInt8, False),
        (QuantFormat.QDQ, QuantType.QUInt8, True),
        (QuantFormat.QOperator, QuantType.QInt8, False),
    ],
)
def test_a_network(tmp_path: Path, form: QuantFormat, activations: QuantType, *, dots: bool) -> None:
    target = dotting() if dots else lavapipe()
    source = write_float_net(tmp_path / "float.onnx")
    path = tmp_path / "net.onnx"
    quantize_net(source, path, quant_format=form, per_channel=True, activation_type=activations)
    simplified = simplify(path)
    got = run_built(onnx.load_from_string(simplified.model), simplified.reference.inputs, target)
    steps = find_steps(onnx.load(path))
    for value, want, step in zip(got, simplified.reference.outputs.values(), steps, strict=True):
        assert np.ptp(want) > 10 * step
        np.testing.assert_allclose(value, want, rtol=0, atol=3.01 * step)
