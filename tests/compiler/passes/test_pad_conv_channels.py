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

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.pad_conv_channels import padded_channels
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

SaveModel = Callable[..., Path]
RANDOM = np.random.RandomState(5)


@pytest.mark.parametrize(
    ("channels", "lanes", "padded"),
    [(64, 16, 64), (24, 16, 32), (58, 16, 64), (255, 16, 256), (20, 16, 32), (8, 16, 8), (4, 16, 4), (1, 16, 1),
     (3, 16, 16), (24, 8, 24), (58, 8, 64), (12, 8, 16), (12, 4, 12), (255, 4, 256)],
)  # fmt: skip
def test_channels_are_padded_where_that_takes_fewer_vectors(channels: int, lanes: int, padded: int) -> None:
    assert padded_channels(channels, lanes) == padded


def save_convolution(save_model: SaveModel, channels: int, **attributes: object) -> tuple[Path, np.ndarray]:
    kernel = 3 if "pads" in attributes else 1
    weights = {
        "w": RANDOM.uniform(-1, 1, (channels, 12, kernel, kernel)).astype("float32"),
        "b": RANDOM.uniform(-1, 1, channels).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], **attributes),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    data = RANDOM.uniform(-1, 1, (1, 12, 13, 11)).astype("float32")
    return save_model(nodes, weights, data.shape), data


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("channels", "attributes"),
    [
        (58, {}),
        (255, {}),
        (3, {}),
        (29, {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        (7, {"pads": [2] * 4, "dilations": [2, 2]}),
    ],
)
def test_padded_channels_change_no_number(
    channels: int, attributes: dict[str, object], save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    path, data = save_convolution(save_model, channels, **attributes)
    lowered = lower(import_onnx(path), cpu)
    (task,) = (task for task in extract_tasks(lowered) if task.name.startswith("conv2d"))
    (weights,) = (p for p in task.mod["main"].params if len(p.shape) == 4 and int(p.shape[2]) == 12)
    assert int(weights.shape[3]) == padded_channels(channels, 8)
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu())
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(data)).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.compiler
def test_bias_and_activation_stay_in_the_convolution_s_task(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    path, _ = save_convolution(save_model, 58)
    names = [task.name for task in extract_tasks(lower(import_onnx(path), cpu))]
    assert [name for name in names if "conv2d" in name] == ["conv2d_add_relu"]


@pytest.mark.compiler
def test_channels_that_fill_vectors_are_left_alone(save_model: SaveModel) -> None:
    path, _ = save_convolution(save_model, 48)
    keys = set()
    for mcpu in ("x86-64-v3", "x86-64-v4"):
        target = tvm_target(
            "llvm", FrozenMap({"mcpu": mcpu, "mtriple": "x86_64-linux-gnu", "num-cores": 2}), FrozenMap()
        )
        keys |= {task.key for task in extract_tasks(lower(import_onnx(path), target)) if "conv2d" in task.name}
    assert len(keys) == 1


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("shape", "kernel", "attributes", "more"),
    [
        ((1, 64, 71, 1), (5, 1), {}, (5, 0)),  # 67 rows are computed as 72
        ((1, 64, 3, 67), (1, 3), {"pads": [0, 1, 0, 1]}, (0, 5)),
        ((1, 64, 136, 1), (3, 1), {"strides": [2, 1]}, (5, 0)),
        ((1, 64, 72, 1), (5, 1), {}, (0, 0)),  # 68 = 4 x 17: tiles of 17
    ],
)
def test_pixels_that_no_tile_divides_are_made_more(
    *,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    attributes: dict[str, object],
    more: tuple[int, int],
    save_model: SaveModel,
    cpu: tvm.target.Target,
) -> None:
    weights = {"w": RANDOM.uniform(-1, 1, (64, 64, *kernel)).astype("float32")}
    path = save_model([helper.make_node("Conv", ["x", "w"], ["y"], **attributes)], weights, shape)
    lowered = lower(import_onnx(path), cpu)
    (task,) = (task for task in extract_tasks(lowered) if task.name.startswith("conv2d"))
    blocks = task.mod["main"].body.block.alloc_buffers
    data = RANDOM.uniform(-1, 1, shape).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    computed = (want.shape[2] + more[0], want.shape[3] + more[1])
    assert computed in [
        tuple(int(extent) for extent in each.shape[1:3]) for each in (*blocks, task.mod["main"].params[-1])
    ]
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu())
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(data)).numpy(), want, rtol=1e-4, atol=1e-4)
