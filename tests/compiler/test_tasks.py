from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tvm

from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import display_name
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import Task, extract_tasks

SaveModel = Callable[..., Path]

KEYS = """
import sys
from pathlib import Path
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.ir.calls import display_name
from tvmbuild.compiler.tasks import extract_tasks
from tvmbuild.base.frozen_map import FrozenMap

target = tvm_target("llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 2}), FrozenMap())
print(*(task.key for task in extract_tasks(lower(import_onnx(Path(sys.argv[1])), target))))
"""


def tasks_of(path: Path, target: tvm.target.Target) -> dict[str, Task]:
    return {task.key: task for task in extract_tasks(lower(import_onnx(path), target))}


def test_other_weights_and_names_are_the_same_tasks(save_convnet: SaveModel, cpu: tvm.target.Target) -> None:
    first = tasks_of(save_convnet(), cpu)
    second = tasks_of(save_convnet(seed=1, prefix="other/", name="b.onnx"), cpu)
    assert list(first) == list(second)
    for key, task in first.items():
        assert len(key) == 16
        assert int(key, 16) >= 0
        assert tvm.ir.save_json(task.mod) == tvm.ir.save_json(second[key].mod)


def test_keys_are_the_same_in_every_process(save_convnet: SaveModel, tmp_path: Path) -> None:
    path, outputs = save_convnet(), []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TMPDIR": str(folder), "TVM_NUM_THREADS": "1"}
        command = [sys.executable, "-c", KEYS, str(path)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        outputs.append(done.stdout.split())
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 3


@pytest.mark.compiler
def test_real_networks_share_their_equal_layers(project_root: Path, cpu: tvm.target.Target) -> None:
    mobilenet = tasks_of(project_root / "models" / "mobilenet_v2.onnx", cpu)
    efficientnet = tasks_of(project_root / "examples" / "classify" / "efficientnet_lite0.onnx", cpu)
    shared = mobilenet.keys() & efficientnet.keys()
    assert (len(mobilenet), len(efficientnet), len(shared)) == (33, 35, 11)
    for key in shared:
        assert tvm.ir.save_json(mobilenet[key].mod) == tvm.ir.save_json(efficientnet[key].mod)


@pytest.mark.compiler
def test_a_repeated_layer_is_one_task_with_its_weight(project_root: Path, cpu: tvm.target.Target) -> None:
    tasks = tasks_of(project_root / "models" / "mobilenet_v2.onnx", cpu).values()
    assert sum(task.weight for task in tasks) == 55
    assert max(task.weight for task in tasks) == 4


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("fused_conv2d12_add9_maximum5_minimum51", "conv2d_add_maximum_minimum"),
        ("conv2d", "conv2d"),
        ("transpose1", "transpose"),
        ("fused_matmul_add241", "matmul_add"),
        ("fused_add_add1_add2", "add_add_add"),
        ("fused_tir_tanh_add_add1_add2_add3_multiply", "tir_tanh_add_add_add_add_multiply"),
        ("fused_strided_slice" + "".join(f"_strided_slice{i}" for i in range(43)) + "_add", "strided_slice_x44_add"),
    ],
)
def test_display_name(function: str, name: str) -> None:
    assert display_name(function) == name
