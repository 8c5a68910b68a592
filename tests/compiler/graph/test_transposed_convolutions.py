"""Transposed convolutions with windows that do not overlap: the right numbers, by a 1 x 1 convolution."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.tasks import extract_tasks

pytestmark = pytest.mark.compiler

SaveModel = Callable[..., Path]
RANDOM = np.random.RandomState(11)


def save(save_model: SaveModel, kernel: tuple[int, int], channels: int, **attributes: object) -> Path:
    """A convolution, a transposed one with bias and ReLU, and one more."""
    weights = {
        "w": RANDOM.uniform(-1, 1, (12, 3, 3, 3)).astype("float32"),
        "t": RANDOM.uniform(-1, 1, (12, channels, *kernel)).astype("float32"),
        "b": RANDOM.uniform(-1, 1, channels).astype("float32"),
        "v": RANDOM.uniform(-1, 1, (8, channels, 1, 1)).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("ConvTranspose", ["a", "t", "b"], ["c"], **attributes),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "v"], ["y"]),
    ]
    return save_model(nodes, weights, (1, 3, 9, 11))


def difference(path: Path, lowered: Lowered, target: tvm.target.Target) -> float:
    applied = apply_records(lowered, target, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, target), tvm.cpu())
    data = RANDOM.uniform(-1, 1, (1, 3, 9, 11)).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    got = machine["main"](tvm.runtime.tensor(data)).numpy()
    assert got.shape == want.shape
    return float(np.abs(got - want).max())


@pytest.mark.parametrize(("kernel", "channels"), [((2, 2), 1), ((2, 2), 24), ((3, 2), 5), ((4, 4), 16)])
def test_windows_that_do_not_overlap_are_a_pointwise_convolution(
    kernel: tuple[int, int], channels: int, save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    path = save(save_model, kernel, channels, strides=list(kernel))
    lowered = lower(import_onnx(path), cpu)
    names = [task.name for task in extract_tasks(lowered)]
    assert not [name for name in names if "conv2d_transpose" in name]
    # One pass puts the pixels in order, adds the bias and clips: no copy more.
    assert [name for name in names if "transpose" in name and name.endswith("add_relu")], names
    assert len(names) == 5, names
    assert difference(path, lowered, cpu) < 1e-4
