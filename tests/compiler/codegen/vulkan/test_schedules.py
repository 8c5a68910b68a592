"""Kernels of all rules and of drawn schedules: valid SPIR-V, and on lavapipe the CPU's numbers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import numpy as np
import onnx_graphs
import pytest
import tvm
from drawn_schedules import draw_schedules
from nights import share
from onnx_graphs import RELU, Graph, node
from vulkan_kernels import build, explain_invalid, generate, lavapipe, run

from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.gpu.rules import list_schedules
from tvmbuild.compiler.schedules.gpu.sliding_window import slide, view_windows
from tvmbuild.compiler.tasks import Task, extract_tasks

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
SaveModel = Callable[..., Path]
RANDOM = np.random.RandomState(5)
conv = partial(onnx_graphs.conv, RANDOM)
DENSE = RANDOM.uniform(-1, 1, (48, 40)).astype("float32")
GRAPHS: dict[str, Graph] = {
    "pointwise": conv(24, 20, 1, (7, 7), RELU),
    "padded-stride-2": conv(6, 16, 3, (15, 15), RELU, strides=[2, 2], pads=[1, 1, 1, 1]),
    "windows-as-a-matrix": conv(16, 32, 3, (12, 12), RELU, pads=[1, 1, 1, 1]),
    "one-dimension": conv(12, 8, 3, (40,), RELU, pads=[1, 1]),
    "depthwise": conv(20, 20, 3, (9, 9), RELU, group=20, pads=[1, 1, 1, 1]),
    "matmul": ([node("MatMul", "x", "f")], {"f": DENSE}, (5, 48)),
    "one-row": ([node("MatMul", "x", "f")], {"f": DENSE}, (1, 48)),
    "rows-no-tile-divides": ([node("MatMul", "x", "f")], {"f": DENSE}, (1, 37, 48)),
    "max-pool": ([node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2])], {}, (1, 6, 15, 15)),
    "average": ([node("GlobalAveragePool", "x")], {}, (1, 300, 7, 7)),
    "softmax": ([node("Softmax", "x")], {}, (4, 50)),
    "normalized": ([node("LayerNormalization", "x", "s")], {"s": DENSE[0]}, (6, 40)),
    "transpose": ([node("Transpose", "x", perm=[0, 2, 1])], {}, (1, 8, 12)),
    "resize": ([node("Resize", "x", "", "z", mode="linear")], {"z": np.array([1, 1, 2, 2], "float32")}, (1, 3, 6, 5)),
}
DRAWN = 30
"""The most schedules that are drawn for a function."""
NIGHTS = 4


def list_tasks(save_model: SaveModel, name: str, half: bool) -> Sequence[Task]:
    nodes, weights, shape = GRAPHS[name]
    imported = import_onnx(save_model(nodes, weights, shape))
    imported = reduce_precision(imported, "fp16", "vulkan") if half else imported
    return extract_tasks(lower(imported, lavapipe()))


def check(task: Task, schedules: Iterator[tvm.IRModule], folder: Path) -> int:
    """Check the kernels; return the number of schedules."""
    random = np.random.RandomState(1)
    shapes = [([int(size) for size in each.ty.shape], str(each.ty.dtype)) for each in task.mod["main"].params]
    arrays = [random.uniform(-1, 1, shape).astype(dtype) for shape, dtype in shapes]
    arrays[-1][...] = np.nan
    want = [tvm.runtime.tensor(each) for each in arrays]
    tvm.tirx.build(task.mod, target="llvm")["main"](*want)
    rtol, atol = (5e-3, 2e-2) if "float16" in task.mod.script() else (1e-5, 1e-5)
    count = 0
    for mod in schedules:
        count += 1
        if shutil.which("spirv-val"):
            assert [said for kernel in generate(mod) if (said := explain_invalid(kernel, folder))] == []
        got = run(build(mod), *arrays)[-1]
        np.testing.assert_allclose(got, want[-1].numpy(), rtol, atol, err_msg=mod.script())
    return count


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("name", GRAPHS)
def test_rules(save_model: SaveModel, tmp_path: Path, name: str, half: bool) -> None:
    for task in list_tasks(save_model, name, half):
        schedules = (each.mod for each in list_schedules(task.mod["main"], lavapipe(), 1))
        assert check(task, schedules, tmp_path)


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_neighbours_of_a_row(
    save_model: SaveModel, tmp_path: Path, layout: Literal["NCHW", "NHWC"], half: bool
) -> None:
    """The rule itself wants more threads than a quick test has."""
    nodes, weights, shape = GRAPHS["depthwise"]
    imported = import_onnx(save_model(nodes, weights, shape))
    imported = reduce_precision(imported, "fp16", "vulkan") if half else imported
    (task,) = (task for task in extract_tasks(lower(imported, lavapipe(), layout)) if "conv2d" in task.name)
    seen = view_windows(task.mod["main"])
    assert seen is not None
    assert check(task, (slide(seen, neighbours, 32).mod for neighbours in (4, 2, 1)), tmp_path) == 3


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("name", GRAPHS)
def test_drawn_schedules(save_model: SaveModel, tmp_path: Path, name: str, half: bool) -> None:
    for task in list_tasks(save_model, name, half):
        rules = list_schedules(task.mod["main"], lavapipe(), 8)
        drawn = islice(draw_schedules(task, lavapipe()), DRAWN)
        check(task, (each.mod for each in share(chain(rules, drawn), NIGHTS)), tmp_path)


@pytest.mark.parametrize("name", ["padded-stride-2", "softmax", "matmul"])
def test_a_few_drawn_schedules(save_model: SaveModel, tmp_path: Path, name: str) -> None:
    task = max(list_tasks(save_model, name, half=False), key=lambda task: len(task.mod.script()))
    assert check(task, (each.mod for each in islice(draw_schedules(task, lavapipe()), 0, None, 12)), tmp_path)
