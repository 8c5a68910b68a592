"""Three-dimensional convolutions become two-dimensional, give ONNX Runtime's numbers, and none is a plain loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from convolution_nets import save_convolutions
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.cpu.rules import sums_without_tiles
from tvmbuild.compiler.tasks import extract_tasks

pytestmark = pytest.mark.compiler
SaveModel = Callable[..., Path]
Attributes = dict[str, Any]
SHAPE = (2, 8, 5, 7, 6)
FEW = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
CASES: list[Attributes] = [
    {"kernel": (3, 3, 3), "pads": [1] * 6, "strides": [2, 2, 2]},
    {"kernel": (3, 3, 3), "pads": [2] * 6, "dilations": [2, 2, 2], "group": 4},
    {"kernel": (1, 1, 1), "strides": [3, 2, 1]},
    {"kernel": (3, 1, 2), "pads": [2, 0, 1, 0, 1, 0], "strides": [1, 2, 2], "group": 2},
    {"kernel": (5, 7, 6)},
]


@st.composite
def draw_attributes(draw: st.DrawFn) -> Attributes:
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(3))
    strides, dilations = ([draw(st.integers(1, most)) for _ in range(3)] for most in (3, 2))
    pads = [draw(st.integers(0, 2)) for _ in range(6)]
    group = draw(st.sampled_from([1, 2, 4, 8]))
    return {"kernel": kernel, "strides": strides, "dilations": dilations, "pads": pads, "group": group}


def check(cases: list[Attributes], save_model: SaveModel, cpu: tvm.target.Target) -> None:
    """Compare a network that adds up the results of all convolutions, with their pixels joined to one axis."""
    path = save_convolutions(save_model, SHAPE, 16, cases, 1)
    data = np.random.RandomState(4).uniform(-1, 1, SHAPE).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    lowered = lower(import_onnx(path), cpu)
    machine = describe_machine(cpu)
    plain = [task.name for task in extract_tasks(lowered) if sums_without_tiles(task.mod["main"], machine)]
    depthwise = any(case.get("group") == SHAPE[1] for case in cases)  # it stays three-dimensional
    assert depthwise or not [name for name in plain if "conv" in name]
    np.testing.assert_allclose(build_here(lowered, cpu)({"x": data})["y"], want, rtol=1e-4, atol=2e-5)


def test_each_form_has_the_same_numbers(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    check(CASES, save_model, cpu)


@seed(39)
@settings(FEW, max_examples=1, database=None)
@given(cases=st.lists(draw_attributes(), min_size=5, max_size=5))
def test_drawn_ones(cases: list[Attributes], save_model: SaveModel, cpu: tvm.target.Target) -> None:
    check(cases, save_model, cpu)


@pytest.mark.nightly
@settings(FEW, max_examples=15)
@given(cases=st.lists(draw_attributes(), min_size=5, max_size=5))
def test_many_drawn_ones(cases: list[Attributes], save_model: SaveModel, cpu: tvm.target.Target) -> None:
    check(cases, save_model, cpu)
