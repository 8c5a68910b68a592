"""Convolutions whose windows lie in the padding: right numbers, and no product of a tap that reads only padding."""

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

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes import drop_padded_taps as module
from tvmbuild.compiler.passes.drop_padded_taps import drop_padded_taps
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler
SaveModel = Callable[..., Path]
Attributes = dict[str, Any]
SHAPE = (1, 64, 12, 10)
FEW = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])

FORMS: dict[str, tuple[Attributes, list[tuple[int, ...]]]] = {
    "only the middle tap": ({"kernel": (3, 3), "dilations": [24, 24], "pads": [24] * 4}, [(1, 1)]),
    "one axis": ({"kernel": (3, 3), "dilations": [12, 1], "pads": [12, 1, 12, 1]}, [(1, 3)]),
    "parts": (
        {"kernel": (3, 3), "dilations": [8, 7], "pads": [8, 7, 8, 7]},
        [(2, 2), (2, 1), (2, 2), (1, 2), (1, 1), (1, 2), (2, 2), (2, 1), (2, 2)],
    ),
    "a stride": (
        {"kernel": (3, 3), "dilations": [9, 1], "pads": [9, 1, 9, 1], "strides": [2, 1]},
        [(2, 3), (1, 3), (2, 3)],
    ),
    "most read data": ({"kernel": (3, 3), "dilations": [2, 2], "pads": [2] * 4}, [(3, 3)]),
    "nothing but padding": ({"kernel": (3, 3), "dilations": [13, 13], "pads": [26] * 4}, [(3, 3)]),
    "padding before alone": ({"kernel": (3, 1), "dilations": [12, 1], "pads": [24, 0, 0, 0]}, [(1, 1)]),
}


def save(save_model: SaveModel, cases: list[Attributes]) -> Path:
    return save_convolutions(save_model, SHAPE, 64, cases, 0.1)


def check(path: Path, target: tvm.target.Target) -> None:
    data = np.random.RandomState(6).uniform(-1, 1, SHAPE).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    got = build_here(lower(import_onnx(path), target), target)({"x": data})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


def list_kernels(path: Path, target: tvm.target.Target) -> list[tuple[int, ...]]:
    mod = drop_padded_taps(import_onnx(path).mod, target)
    return [
        tuple(int(each) for each in call.args[1].ty.shape.values[2:]) for call in operator_calls(mod, "relax.nn.conv")
    ]


@pytest.mark.parametrize("form", FORMS)
def test_only_taps_that_read_data_are_left(
    form: str, save_model: SaveModel, cpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_SAVED", 0)
    attributes, kernels = FORMS[form]
    path = save(save_model, [attributes])
    assert list_kernels(path, cpu) == kernels
    gpu = tvm_target("cuda", FrozenMap({"arch": "sm_87"}), FrozenMap({"mcpu": "x86-64-v3"}))
    assert list_kernels(path, gpu) == (kernels if len(kernels) == 1 else [attributes["kernel"]])


def test_parts_that_save_little_stay_together(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    assert list_kernels(save(save_model, [FORMS["parts"][0]]), cpu) == [(3, 3)]


def test_each_form_has_the_same_numbers(
    save_model: SaveModel, cpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_SAVED", 0)
    depthwise = {"kernel": (3, 3), "dilations": [8, 8], "pads": [8] * 4, "group": 64}
    check(save(save_model, [*(attributes for attributes, _ in FORMS.values()), depthwise]), cpu)


@st.composite
def draw_attributes(draw: st.DrawFn) -> Attributes:
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(2))
    dilations = [draw(st.integers(1, 14)) for _ in range(2)]
    strides = [draw(st.integers(1, 2)) for _ in range(2)]
    reach = [step * (size - 1) for step, size in zip(dilations, kernel, strict=True)]
    before = [draw(st.integers(0, each)) for each in reach]
    after = [max(0, each - first - draw(st.integers(0, 3))) for each, first in zip(reach, before, strict=True)]
    group = draw(st.sampled_from([1, 1, 4, 64]))
    return {"kernel": kernel, "strides": strides, "dilations": dilations, "pads": [*before, *after], "group": group}


@seed(42)
@settings(FEW, max_examples=2, database=None)
@given(cases=st.lists(draw_attributes(), min_size=5, max_size=5))
def test_drawn_ones(cases: list[Attributes], save_model: SaveModel, cpu: tvm.target.Target) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_SAVED", 0)
        check(save(save_model, cases), cpu)


@pytest.mark.nightly
@settings(FEW, max_examples=60)
@given(cases=st.lists(draw_attributes(), min_size=5, max_size=5))
def test_many_drawn_ones(cases: list[Attributes], save_model: SaveModel, cpu: tvm.target.Target) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_SAVED", 0)
        check(save(save_model, cases), cpu)
