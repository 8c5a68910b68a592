"""Operators with more tensors than a kernel may have become several functions, each within the target's limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import helper
from onnx_graphs import node
from tvm import tirx
from vulkan_devices import HOST

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = pytest.mark.compiler
COUNT = 70
SaveModel = Callable[..., Path]


@dataclasses.dataclass(frozen=True)
class Case:
    nodes: tuple[onnx.NodeProto, ...]
    weights: dict[str, np.ndarray]
    most: int
    """The most functions that they may become."""


def split() -> onnx.NodeProto:
    return helper.make_node("Split", ["x"], PARTS, axis=0, num_outputs=COUNT)


def slices() -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    numbers = {f"n{index}": np.array([index]) for index in range(COUNT + 1)}
    nodes = [node("Slice", "x", f"n{i}", f"n{i + 1}", out=part) for i, part in enumerate(PARTS)]
    return nodes, numbers


PARTS = [f"p{index}" for index in range(COUNT)]
SLICES, NUMBERS = slices()
CASES = {
    **{kind: Case((split(), node(kind, *PARTS)), {}, 5) for kind in ("Sum", "Max", "Min", "Mean")},
    "Concat": Case((split(), node("Concat", *PARTS, axis=1)), {}, 5),
    "Concat, operators after it": Case(
        (split(), node("Concat", *PARTS, axis=1, out="c"), node("Tanh", "c", out="t"), node("Mul", "t", "c")), {}, 5
    ),
    "Concat of slices": Case((*SLICES, node("Concat", *PARTS, axis=1)), NUMBERS, 5),
    "Concat and Sum of slices": Case(
        (
            *SLICES,
            node("Concat", *PARTS, axis=0, out="c"),
            node("Sum", *PARTS, out="s"),
            node("Mul", "c", "s"),
        ),
        NUMBERS,
        9,
    ),
    "weights": Case(
        (
            split(),
            *(node("Mul", part, f"w{part}", out=f"m{part}") for part in PARTS),
            node("Sum", *(f"m{part}" for part in PARTS)),
        ),
        {f"w{part}": np.random.RandomState(3).normal(0, 1, (1, 6)).astype("float32") for part in PARTS},
        12,
    ),
}


def save(save_model: SaveModel, case: Case) -> Path:
    return save_model(case.nodes, case.weights, (COUNT, 6), 18)


def largest(mod: tvm.ir.IRModule) -> int:
    # A Split is one function with one kernel for each output.
    functions = [
        function
        for variable, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and not variable.name_hint.startswith("split")
    ]
    return max(len(function.params) for function in functions)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_every_function_is_within_the_limit_and_right(name: str, save_model: SaveModel, cpu: tvm.target.Target) -> None:
    path = save(save_model, CASES[name])
    lowered = lower(import_onnx(path), cpu)
    assert largest(lowered.mod) <= 32
    functions = [each for each in lowered.mod.functions.values() if isinstance(each, tirx.PrimFunc)]
    assert len(functions) <= CASES[name].most
    data = np.random.RandomState(8).normal(0.5, 2, (COUNT, 6)).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    np.testing.assert_allclose(build_here(lowered, cpu)({"x": data})["y"], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Sum", "Concat", "weights"])
def test_a_target_says_its_limit(name: str, save_model: SaveModel) -> None:
    attributes = {**FAMILIES["lavapipe"], "max_per_stage_descriptor_storage_buffer": 8}
    target = tvm_target("vulkan", FrozenMap(sorted(attributes.items())), HOST)
    assert largest(lower(import_onnx(save(save_model, CASES[name])), target).mod) <= 8
