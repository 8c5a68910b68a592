"""Small ONNX models, the targets of these tests, and schedules without measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from drawn_schedules import draw_schedules
from onnx import TensorProto, helper, numpy_helper
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.tasks import Task

SaveModel = Callable[..., Path]


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "2")


@pytest.fixture
def cpu() -> tvm.target.Target:
    attributes: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2})
    return tvm_target("llvm", attributes, FrozenMap())


@pytest.fixture
def pi4() -> tvm.target.Target:
    attributes: Attributes = FrozenMap({"mcpu": "cortex-a72", "mtriple": "aarch64-unknown-linux-gnu", "num-cores": 4})
    return tvm_target("llvm", attributes, FrozenMap())


@pytest.fixture
def gpu() -> tvm.target.Target:
    limits = FrozenMap({"max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024})
    host = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-unknown-linux-gnu"})
    return tvm_target("cuda", FrozenMap({"arch": "sm_90", **limits, "thread_warp_size": 32}), host)


@pytest.fixture
def save_model(tmp_path: Path) -> SaveModel:
    """Save the graph x → nodes → y under ``name``; its weights are drawn from a fixed seed."""

    def save(
        nodes: Sequence[onnx.NodeProto],
        weights: dict[str, np.ndarray] | None = None,
        shape: tuple[int | str, ...] = (1, 3, 8, 8),
        opset: int = 17,
        name: str = "net.onnx",
    ) -> Path:
        graph = helper.make_graph(
            list(nodes),
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(value, key) for key, value in (weights or {}).items()],
        )
        path = tmp_path / name
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), str(path))
        return path

    return save


@pytest.fixture
def save_convnet(save_model: SaveModel) -> Callable[..., Path]:
    """Save conv → ReLU6 → conv, as torch exports it; ``seed`` draws other weights, ``prefix`` other names."""

    def save(seed: int = 0, prefix: str = "", name: str = "net.onnx") -> Path:
        random = np.random.RandomState(seed)
        weights = {
            f"{prefix}w1": random.uniform(-1, 1, (16, 3, 3, 3)).astype("float32"),
            f"{prefix}w2": random.uniform(-1, 1, (32, 16, 3, 3)).astype("float32"),
            f"{prefix}low": np.float32(0).reshape(()),
            f"{prefix}high": np.float32(6).reshape(()),
        }
        nodes = [
            helper.make_node("Conv", ["x", f"{prefix}w1"], [f"{prefix}a"], pads=[1, 1, 1, 1]),
            helper.make_node("Clip", [f"{prefix}a", f"{prefix}low", f"{prefix}high"], [f"{prefix}b"]),
            helper.make_node("Conv", [f"{prefix}b", f"{prefix}w2"], ["y"], pads=[1, 1, 1, 1]),
        ]
        return save_model(nodes, {k: np.asarray(v) for k, v in weights.items()}, name=name)

    return save


@pytest.fixture
def sample_schedules(cpu: tvm.target.Target) -> Callable[[Sequence[Task]], ms.database.MemoryDatabase]:
    """Return a database with one valid schedule for each Task, drawn from its design space and never measured."""

    def sample(tasks: Sequence[Task]) -> ms.database.MemoryDatabase:
        database = ms.database.MemoryDatabase()
        for task in tasks:
            trace = _draw_trace(task, cpu)
            workload = database.commit_workload(task.mod)
            arguments = ms.arg_info.ArgInfo.from_entry_func(task.mod)
            record = ms.database.TuningRecord(trace, workload, run_secs=[1.0], target=cpu, args_info=arguments)
            database.commit_tuning_record(record)
        return database

    return sample


def _draw_trace(task: Task, target: tvm.target.Target) -> tvm.s_tir.Trace:
    for schedule in draw_schedules(task, target):
        return schedule.trace
    raise AssertionError(f"no valid schedule drawn for {task.name}")
