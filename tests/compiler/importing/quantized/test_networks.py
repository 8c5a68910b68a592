"""Whole networks by onnxruntime.quantization, in both formats, from simplification and import to their results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic
from quantized_nets import find_steps, quantize_net, write_float_net
from quantized_nodes import MICROSOFT, run_built

from tvmbuild.preparing.simplify import simplify

STEPS = 3
"""The allowed error in steps of an output's scale: one tie spreads."""


@pytest.mark.parametrize("activations", [QuantType.QUInt8, QuantType.QInt8])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("form", [QuantFormat.QOperator, QuantFormat.QDQ])
def test_a_quantised_network(
    tmp_path: Path, cpu: tvm.target.Target, form: QuantFormat, per_channel: bool, activations: QuantType
) -> None:
    source = write_float_net(tmp_path / "float.onnx")
    path = quantize_net(
        source, tmp_path / "net.onnx", quant_format=form, per_channel=per_channel, activation_type=activations
    )
    written = onnx.load(path)
    assert any(node.domain == MICROSOFT for node in written.graph.node) == (form == QuantFormat.QOperator)
    simplified = simplify(path)
    assert simplified.is_simplified, simplified.notes
    got = run_built(onnx.load_from_string(simplified.model), simplified.reference.inputs, cpu)
    for value, want, step in zip(got, simplified.reference.outputs.values(), find_steps(written), strict=True):
        assert np.ptp(want) > 10 * step
        np.testing.assert_allclose(value, want, rtol=0, atol=(STEPS + 0.01) * step)


def test_a_dynamically_quantised_network(tmp_path: Path, cpu: tvm.target.Target) -> None:
    source, path = write_float_net(tmp_path / "float.onnx"), tmp_path / "net.onnx"
    quantize_dynamic(str(source), str(path), op_types_to_quantize=["Conv", "MatMul", "Gemm"])
    operators = {node.op_type for node in onnx.load(path).graph.node}
    assert {"ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"} <= operators
    simplified = simplify(path)
    assert simplified.is_simplified, simplified.notes
    got = run_built(onnx.load_from_string(simplified.model), simplified.reference.inputs, cpu)
    for value, want in zip(got, simplified.reference.outputs.values(), strict=True):
        np.testing.assert_allclose(value, want, rtol=0, atol=0.01 * np.ptp(want))
