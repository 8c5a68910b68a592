"""Drawn graphs that onnxruntime.quantization quantised: their numbers pass the same gate as packages."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import pytest
import tvm
from drawn_graphs import draw_graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnxruntime.quantization import QuantFormat, QuantType
from quantized_nets import quantize_net

from tvmbuild.base.specs import Tolerance
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.package.runtime.vulkan.plugin import load_plugin
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.simplify import simplify

pytestmark = pytest.mark.compiler
EXAMPLES = int(os.environ.get("DRAWN_QUANTISED", "30"))
ONE_AT_A_TIME = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@dataclass(frozen=True)
class Way:
    """The options for quantising a drawn model."""

    quant_format: QuantFormat
    activation_type: QuantType
    per_channel: bool
    extra_options: dict[str, bool]


OPTIONS = ("ActivationSymmetric", "WeightSymmetric", "QuantizeBias")
WAYS = st.builds(
    Way,
    st.sampled_from([QuantFormat.QDQ, QuantFormat.QDQ, QuantFormat.QOperator]),
    st.sampled_from([QuantType.QUInt8, QuantType.QInt8]),
    st.booleans(),
    st.fixed_dictionaries({name: st.booleans() for name in OPTIONS}),
)


def check(model: onnx.ModelProto, way: Way, target: tvm.target.Target) -> None:
    with TemporaryDirectory() as folder:
        source = Path(folder, "float.onnx")
        onnx.save(model, source)
        quantised = simplify(quantize_net(source, source.with_name("net.onnx"), **asdict(way)))
    reference = quantised.reference
    assert reference.precision == "int8" or not {node.op_type for node in model.graph.node} & {"Conv", "MatMul"}
    lowered = lower(import_model(onnx.load_from_string(quantised.model), "drawn"), target)
    assert lowered.notes == ()
    got = build_here(lowered, target)(reference.inputs)
    assert compare(got, reference.outputs, reference.allow(Tolerance())).problem is None


@given(draw_graphs(), WAYS)
@settings(ONE_AT_A_TIME, max_examples=3)
def test_a_few(model: onnx.ModelProto, way: Way) -> None:
    check(model, way, host_target(threads=2))


@pytest.mark.nightly
@given(draw_graphs(), WAYS)
@settings(ONE_AT_A_TIME, max_examples=EXAMPLES)
def test_many(model: onnx.ModelProto, way: Way) -> None:
    check(model, way, host_target(threads=2))


@pytest.mark.nightly
@pytest.mark.vulkan
@given(draw_graphs(), WAYS)
@settings(ONE_AT_A_TIME, max_examples=EXAMPLES // 3)
def test_many_on_a_gpu(model: onnx.ModelProto, way: Way) -> None:
    from vulkan_kernels import lavapipe

    load_plugin()
    check(model, way, lavapipe())
