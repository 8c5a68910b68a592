"""Drawn attention is one Task and gives ONNX Runtime's results."""

from __future__ import annotations

import os

import numpy as np
import onnxruntime
import pytest
from drawn_attention import draw_attention

from tvmbuild.base.attributes import Attributes, Precision
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

FIRST = int(os.environ.get("DRAWN_ATTENTION_FIRST", "100"))
EXAMPLES = int(os.environ.get("DRAWN_ATTENTION", "24"))
CPUS = ("x86-64-v3", "x86-64")


def check(seed: int, most: int) -> None:
    drawn, cpu = draw_attention(seed, most=most), CPUS[seed % len(CPUS)]
    attributes: Attributes = FrozenMap({"mcpu": cpu, "mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2})
    target = tvm_target("llvm", attributes, FrozenMap())
    precision: Precision = "fp16" if seed % 5 == 4 else "fp32"
    lowered = lower(reduce_precision(import_model(drawn.model, "drawn"), precision, "llvm"), target)
    names = [task.name for task in extract_tasks(lowered)]
    assert "attention" in names
    assert not any("softmax" in name or "matmul" in name or "tanh" in name for name in names), names
    (got,) = build_here(lowered, target)(drawn.inputs).values()
    session = onnxruntime.InferenceSession(drawn.model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, drawn.inputs)
    error = 1e-2 if precision == "fp16" else 2e-5
    np.testing.assert_allclose(got, want, rtol=error, atol=error)


@pytest.mark.sampled(3)
@pytest.mark.compiler
@pytest.mark.parametrize("seed", range(8))
def test_a_few(seed: int) -> None:
    check(seed, 50)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(FIRST, FIRST + EXAMPLES))
def test_many(seed: int) -> None:
    check(seed, 200)
