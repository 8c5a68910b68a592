from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx_graphs import node
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.tasks import extract_tasks

pytestmark = pytest.mark.compiler
SaveModel = Callable[..., Path]
RANDOM = np.random.RandomState(2)


def draw(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def save_product(save_model: SaveModel, shape: tuple[int, ...], columns: int) -> Path:
    nodes = [
        node("MatMul", "x", "w", out="m"),
        node("Add", "m", "b", out="a"),
        node("Relu", "a"),
    ]
    return save_model(nodes, {"w": draw(shape[-1], columns), "b": draw(columns)}, shape)


def computed_columns(lowered: Lowered) -> list[int]:
    """Return the number of columns of each product's weights."""
    mods = [task.mod["main"] for task in extract_tasks(lowered) if "matmul" in task.name]
    return [int(each.params[1].shape[1]) for each in mods]


@pytest.mark.parametrize(
    ("shape", "columns", "computed"),
    [
        ((37, 24), 197, 200),
        ((2, 5, 24), 13, 16),
        ((3, 2, 7, 16), 1001, 1008),
        ((31, 24), 64, 64),
        ((31, 24), 4, 4),
        ((1, 24), 197, 197),  # there is little to read
        ((1, 300), 1001, 1008),
        ((1, 300), 1004, 1004),  # half vectors suffice
        ((1, 1, 1, 300), 1001, 1008),
    ],
)
def test_columns_are_padded_where_that_takes_fewer_vectors(
    shape: tuple[int, ...], columns: int, computed: int, save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    path = save_product(save_model, shape, columns)
    lowered = lower(import_onnx(path), cpu)
    assert computed_columns(lowered) == [computed]
    assert [task.name for task in extract_tasks(lowered)] == ["matmul_add_relu"]
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    machine, data = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu()), draw(*shape)
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(data)).numpy(), want, rtol=1e-4, atol=1e-4)


def test_a_classifier_of_one_picture_has_the_same_task_for_every_width_of_vectors(save_model: SaveModel) -> None:
    path, keys = save_product(save_model, (1, 1280), 1000), set()
    for mcpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        target = tvm_target(
            "llvm", FrozenMap({"mcpu": mcpu, "mtriple": "x86_64-linux-gnu", "num-cores": 2}), FrozenMap()
        )
        keys |= {task.key for task in extract_tasks(lower(import_onnx(path), target))}
    assert len(keys) == 1


def test_gpus_compute_what_is_asked_for(save_model: SaveModel, gpu: tvm.target.Target) -> None:
    assert computed_columns(lower(import_onnx(save_product(save_model, (37, 24), 197)), gpu)) == [197]
