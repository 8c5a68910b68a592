"""Attention gives ONNX Runtime's results in all its spellings.

Many forms, for another CPU: SPELLED_ATTENTION=600 DRAWN_CPUS=x86-64-v4 TESTS_NIGHT=all pytest -m nightly THIS_FILE
"""

from __future__ import annotations

import os

import onnxruntime
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spelled_attention import FORMS, Form, make_model

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Tolerance
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.operators import count_flops
from tvmbuild.compiler.pipeline import lower
from tvmbuild.preparing.compare import compare

PARTS = 4
EXAMPLES = int(os.environ.get("SPELLED_ATTENTION", "24")) // PARTS
ATTRIBUTES: Attributes = FrozenMap({"mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2})
CPUS = os.environ.get("DRAWN_CPUS", "x86-64-v3,x86-64").split(",")
TOLERANCE = Tolerance(1e-3, 1e-4, 1e-3)


def check(form: Form, cpu: str) -> None:
    model, data = make_model(form)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in model.graph.output]
    want = dict(zip(names, session.run(names, data), strict=True))
    target = tvm_target("llvm", FrozenMap({"mcpu": cpu, **ATTRIBUTES}), FrozenMap())
    lowered = lower(import_model(model, "drawn"), target)
    for function in lowered.mod.functions.values():  # profiles state it for each call
        assert not isinstance(function, tvm.tirx.PrimFunc) or count_flops(function) is not None
    got = build_here(lowered, target)(data)
    assert compare(got, want, TOLERANCE).problem is None


ONE_AT_A_TIME = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@given(FORMS, st.sampled_from(CPUS))
@settings(ONE_AT_A_TIME, max_examples=3)
def test_a_few(form: Form, cpu: str) -> None:
    check(form, cpu)


@pytest.mark.nightly
@pytest.mark.nights(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_many(part: int) -> None:
    @given(FORMS, st.sampled_from(CPUS))
    @settings(ONE_AT_A_TIME, max_examples=EXAMPLES)
    def run(form: Form, cpu: str) -> None:
        check(form, cpu)

    run()
    assert part < PARTS
