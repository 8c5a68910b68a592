"""Drawn graphs give ONNX Runtime's results, whatever the rewrites of the graph do to them."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
from drawn_graphs import draw_graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvmbuild.base.attributes import Attributes, Precision
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Tolerance
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.passes.winograd.apply_winograd import TILES
from tvmbuild.compiler.pipeline import lower
from tvmbuild.preparing.compare import compare

PARTS = 6
EXAMPLES = int(os.environ.get("DRAWN_GRAPHS", "240")) // PARTS
ATTRIBUTES: Attributes = FrozenMap({"mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2})
TOLERANCES: dict[Precision, Tolerance] = {"fp32": Tolerance(1e-3, 1e-4, 1e-3), "fp16": Tolerance(0.0, 0.0, 0.03)}


@dataclass(frozen=True)
class Way:
    """The options for lowering a drawn model."""

    cpu: str
    algorithm: str
    precision: Precision
    one_by_one: bool
    """True if convolutions go to NHWC one by one, as if TVM's ConvertLayout failed."""


WAYS = st.builds(
    Way,
    st.sampled_from(["x86-64-v3", "x86-64"]),
    st.sampled_from(["direct", *TILES]),
    st.sampled_from(["fp32", "fp32", "fp16"]),
    st.booleans(),
)


def check(model: onnx.ModelProto, way: Way) -> None:
    target = tvm_target("llvm", FrozenMap({"mcpu": way.cpu, **ATTRIBUTES}), FrozenMap())
    # A rounded number could equal that of another row.
    precision = "fp32" if any(node.op_type == "Equal" for node in model.graph.node) else way.precision
    imported = reduce_precision(import_model(model, "drawn"), precision, "llvm")
    direct = lower(imported, target, "NHWC each" if way.one_by_one else None)
    assert direct.notes == imported.notes  # lowering adds none
    signatures = [each.convolution.signature for each in direct.convolutions] if way.algorithm in TILES else []
    layout = "NHWC each" if way.one_by_one else direct.layout
    lowered = lower(imported, target, layout, dict.fromkeys(signatures, way.algorithm))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    shape, names = session.get_inputs()[0].shape, [each.name for each in model.graph.output]
    data = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    got = build_here(lowered, target)({"x": data})
    want = dict(zip(names, session.run(names, {"x": data}), strict=True))
    assert compare(got, want, TOLERANCES[precision]).problem is None


ONE_AT_A_TIME = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@given(draw_graphs(), WAYS)
@settings(ONE_AT_A_TIME, max_examples=8)
def test_a_few(model: onnx.ModelProto, way: Way) -> None:
    check(model, way)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_many(part: int) -> None:
    @given(draw_graphs(), WAYS)
    @settings(ONE_AT_A_TIME, max_examples=EXAMPLES)
    def run(model: onnx.ModelProto, way: Way) -> None:
        check(model, way)

    run()
    assert part < PARTS
