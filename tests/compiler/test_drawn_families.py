"""Drawn parts of modern networks give ONNX Runtime's results.

Many: DRAWN_FAMILIES=280 TESTS_NIGHT=all pytest -m nightly THIS_FILE
"""

from __future__ import annotations

import os

import onnxruntime
import pytest
import tvm
from drawn_families import FAMILIES, draw_family
from vulkan_kernels import lavapipe

from tvmbuild.base.attributes import Attributes, Precision
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Tolerance
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.preparing.compare import compare

FIRST = int(os.environ.get("DRAWN_FAMILIES_FIRST", "100"))
EXAMPLES = int(os.environ.get("DRAWN_FAMILIES", "8"))
CPUS = ("x86-64-v3", "x86-64")
TOLERANCES: dict[Precision, Tolerance] = {"fp32": Tolerance(1e-3, 1e-4, 1e-3), "fp16": Tolerance(0.0, 0.0, 0.05)}
FLOAT32_ALONE = ("correlation pyramid", "deformable attention", "two stages", "rotary attention")
"""The families whose float16 rounding moves what is read: places between pixels, the order of scores, angles."""


def check(name: str, seed: int) -> None:
    attributes: Attributes = FrozenMap(
        {"mcpu": CPUS[seed % len(CPUS)], "mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2}
    )
    precision: Precision = "fp16" if seed % 5 == 4 and name not in FLOAT32_ALONE else "fp32"
    compare_with_onnxruntime(name, seed, tvm_target("llvm", attributes, FrozenMap()), precision)


def compare_with_onnxruntime(name: str, seed: int, target: tvm.target.Target, precision: Precision) -> None:
    drawn, kind = draw_family(name, seed), target.kind.name
    imported = import_model(drawn.model, "drawn", for_gpu=kind != "llvm")
    lowered = lower(reduce_precision(imported, precision, kind), target)
    got = build_here(lowered, target)(drawn.inputs)
    session = onnxruntime.InferenceSession(drawn.model.SerializeToString(), providers=["CPUExecutionProvider"])
    want = dict(zip(drawn.outputs, session.run(drawn.outputs, drawn.inputs), strict=True))
    assert compare(got, want, TOLERANCES[precision]).problem is None


@pytest.mark.sampled(3)
@pytest.mark.compiler
@pytest.mark.parametrize("name", FAMILIES)
def test_one(name: str) -> None:
    check(name, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + EXAMPLES))
def test_many(name: str, seed: int) -> None:
    check(name, seed)


@pytest.mark.nightly
@pytest.mark.vulkan
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + EXAMPLES))
def test_many_on_lavapipe(name: str, seed: int) -> None:
    compare_with_onnxruntime(name, seed, lavapipe(), "fp32")
