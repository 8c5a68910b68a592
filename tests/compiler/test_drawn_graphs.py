"""Drawn graphs compute what ONNX Runtime makes of them, whatever the rewrites of the graph do to them."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from drawn_graphs import draw_graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importer import import_model
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.target import tvm_target
from tvmbuild.compiler.winograd import TILES
from tvmbuild.specs import Tolerance
from tvmbuild.stages.compare import compare

PARTS, EXAMPLES = 6, 80
ATTRIBUTES = (("mtriple", "x86_64-unknown-linux-gnu"), ("num-cores", 2))


def check(model: onnx.ModelProto, cpu: str, algorithm: str) -> None:
    target = tvm_target("llvm", (("mcpu", cpu), *ATTRIBUTES), ())
    imported = import_model(model, "drawn")
    direct = lower(imported, target)
    assert direct.notes == ()
    algorithms = {each.convolution.signature: algorithm for each in direct.convolutions} if algorithm in TILES else {}
    lowered = lower(imported, target, direct.layout, algorithms)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    shape, names = session.get_inputs()[0].shape, [each.name for each in model.graph.output]
    data = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    got = build_here(lowered, target)({"x": data})
    want = dict(zip(names, session.run(names, {"x": data}), strict=True))
    assert compare(got, want, Tolerance(1e-3, 1e-4, 1e-3)).problem is None


ONE_AT_A_TIME = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@given(draw_graphs(), st.sampled_from(["x86-64-v3", "x86-64"]), st.sampled_from(["direct", *TILES]))
@settings(ONE_AT_A_TIME, max_examples=8)
def test_a_few(model: onnx.ModelProto, cpu: str, algorithm: str) -> None:
    check(model, cpu, algorithm)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_many(part: int) -> None:
    @given(draw_graphs(), st.sampled_from(["x86-64-v3", "x86-64"]), st.sampled_from(["direct", *TILES]))
    @settings(ONE_AT_A_TIME, max_examples=EXAMPLES)
    def run(model: onnx.ModelProto, cpu: str, algorithm: str) -> None:
        check(model, cpu, algorithm)

    run()
    assert part < PARTS
