"""Transposed convolutions between others in NHWC: right numbers, in one function, or by a 1 x 1 convolution."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper
from tvm import relax, tirx
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.prim_funcs import list_blocks, list_nodes
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.tasks import extract_tasks

pytestmark = pytest.mark.compiler

SaveModel = Callable[..., Path]
RANDOM = np.random.RandomState(11)


def save(save_model: SaveModel, kernel: tuple[int, int], channels: int, **attributes: object) -> Path:
    """Save a convolution, a transposed one with bias and ReLU, and another convolution."""
    whole = channels * int(str(attributes.get("group", 1)))
    weights = {
        "w": RANDOM.uniform(-1, 1, (12, 3, 3, 3)).astype("float32"),
        "t": RANDOM.uniform(-1, 1, (12, channels, *kernel)).astype("float32"),
        "b": RANDOM.uniform(-1, 1, whole).astype("float32"),
        "v": RANDOM.uniform(-1, 1, (8, whole, 1, 1)).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("ConvTranspose", ["a", "t", "b"], ["c"], **attributes),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "v"], ["y"]),
    ]
    return save_model(nodes, weights, (1, 3, 9, 11))


def difference(
    path: Path, lowered: Lowered, target: tvm.target.Target, shape: tuple[int, ...] = (1, 3, 9, 11)
) -> float:
    applied = apply_records(lowered, target, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, target), tvm.cpu())
    data = RANDOM.uniform(-1, 1, shape).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    got = machine["main"](tvm.runtime.tensor(data)).numpy()
    assert got.shape == want.shape
    return float(np.abs(got - want).max())


def test_windows_that_do_not_overlap_are_a_pointwise_convolution(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    """One channel fills less than half a vector."""
    path = save(save_model, (2, 2), 1, strides=[2, 2])
    lowered = lower(import_onnx(path), cpu)
    names = [task.name for task in extract_tasks(lowered)]
    assert not [name for name in names if "conv2d_transpose" in name]
    # One pass puts the pixels in order, adds the bias and clips, without another copy.
    assert [name for name in names if "transpose" in name and name.endswith("add_relu")], names
    assert len(names) == 5, names
    assert difference(path, lowered, cpu) < 1e-4


FORMS: dict[str, tuple[tuple[int, int], int, dict[str, object]]] = {
    "patches": ((2, 2), 24, {"strides": [2, 2]}),
    "patches of other sides": ((3, 2), 20, {"strides": [3, 2]}),
    "equal windows": ((4, 4), 16, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "unequal windows": ((3, 3), 16, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    "of three phases": ((4, 5), 8, {"strides": [3, 3], "pads": [1, 1, 0, 1]}),
    "phases of nothing": ((1, 2), 8, {"strides": [2, 3], "output_padding": [1, 1]}),
    "groups": ((3, 3), 4, {"strides": [2, 2], "group": 3, "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    "depthwise": ((3, 3), 1, {"strides": [2, 2], "group": 12, "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
def test_sums_go_straight_to_their_places(form: str, save_model: SaveModel, cpu: tvm.target.Target) -> None:
    kernel, own, attributes = FORMS[form]
    path = save(save_model, kernel, own, **attributes)
    lowered = lower(import_onnx(path), cpu)
    names = [task.name for task in extract_tasks(lowered)]
    assert [name for name in names if name == "transposed_conv2d_add_relu"], names
    assert len(names) == 4, names  # no pass puts pixels in order
    assert difference(path, lowered, cpu) < 1e-4


@pytest.mark.parametrize(("form", "extents"), [("unequal windows", {"y", "x"}), ("equal windows", set())])
def test_each_phase_sums_up_its_own_window(
    form: str, extents: set[str], save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    kernel, own, attributes = FORMS[form]
    lowered = lower(import_onnx(save(save_model, kernel, own, **attributes)), cpu)
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    (function,) = (each for name, each in applied.mod.functions.items() if "transposed_conv2d" in name.name_hint)
    varying = [loop for loop in list_nodes(function, tirx.For) if not isinstance(loop.extent, tirx.IntImm)]
    assert len(varying) == len(extents)
    stores = [block.body for block in list_blocks(function) if isinstance(block.body, tirx.BufferStore)]
    # The epilogue (bias, ReLU) runs on the tile: only the sums and the padding are in memory in between.
    assert sum(store.buffer.same_as(function.params[-1]) for store in stores) == 1


@pytest.mark.parametrize("stride", [2, 3])
def test_loops_of_another_width_have_the_same_windows(
    stride: int, save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    """One channel is padded in a loop that TVM splits, which makes all of the function's indices 32 bits wide."""
    weights = {"w": RANDOM.uniform(-1, 1, (1, 8, 2 * stride - 1, 2 * stride - 1)).astype("float32")}
    pads = [0, 0, 1, 1]
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[stride, stride], pads=pads)
    path = save_model([node], weights, (1, 1, 9, 11))
    lowered = lower(import_onnx(path), cpu)
    assert difference(path, lowered, cpu, (1, 1, 9, 11)) < 1e-4
