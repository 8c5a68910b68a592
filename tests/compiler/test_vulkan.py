"""Schedules for Vulkan devices, checked without one: TVM's own analysis decides whether they keep the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from drawn_schedules import draw_schedules
from onnx import helper
from tvm.s_tir import meta_schedule as ms
from vulkan_devices import HOST, LEAST

from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import called_functions
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.gpu.rules import fits
from tvmbuild.compiler.tasks import extract_tasks, normalised
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.selection import read_applicable
from tvmbuild.records.store import read_task_file, record_path, write_task_file
from tvmbuild.records.task_file import Record, ResolvedTarget, TaskFile
from tvmbuild.replay.database import database_from_schedule
from tvmbuild.replay.traces import dump_trace, dump_workload
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = pytest.mark.compiler
SaveModel = Callable[..., Path]
DEFAULTS = FrozenMap(sorted(FAMILIES["intel-iris-xe"].items()))
DEVICES = {"intel-iris-xe": FAMILIES["intel-iris-xe"], "least": LEAST}


@pytest.fixture(params=DEVICES)
def vulkan(request: pytest.FixtureRequest) -> tvm.target.Target:
    return tvm_target("vulkan", FrozenMap(sorted(DEVICES[request.param].items())), HOST)


@pytest.fixture
def model(save_model: SaveModel) -> Path:
    random = np.random.RandomState(0)
    weights = {
        "w": random.uniform(-1, 1, (16, 3, 3, 3)).astype("float32"),
        "f": random.uniform(-1, 1, (16, 10)).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "f"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    return save_model(nodes, weights, shape=(1, 3, 32, 32))


def thread_tags(function: tvm.tirx.PrimFunc) -> set[str]:
    tags: set[str] = set()

    def visit(loop: tvm.tirx.For) -> None:
        if loop.thread_binding is not None:
            tags.add(str(loop.thread_binding.thread_tag))

    import tvm_ffi

    tvm_ffi.structural_walk(function.body, (tvm.tirx.For, visit))
    return tags


def test_default_schedules_keep_to_the_limits(model: Path, vulkan: tvm.target.Target) -> None:
    applied = apply_records(lower(import_onnx(model), vulkan), vulkan, ms.database.MemoryDatabase())
    functions = {variable.name_hint: applied.mod[variable] for variable in called_functions(applied.mod)}
    assert len(functions) >= 5
    for name, function in functions.items():
        assert {"blockIdx.x", "threadIdx.x"} <= thread_tags(function), name
        assert fits(normalised(function), vulkan), name
    assert applied.coverage.covered == {}


def test_the_analysis_refuses_what_a_device_cannot_do(model: Path, vulkan: tvm.target.Target) -> None:
    lowered = lower(import_onnx(model), vulkan)
    mod = apply_records(lowered, vulkan, ms.database.MemoryDatabase()).mod
    small = tvm_target("vulkan", FrozenMap({**LEAST, "max_threads_per_block": 2}), HOST)
    assert not all(fits(normalised(mod[variable]), small) for variable in called_functions(mod))


def test_the_search_space_keeps_to_the_limits(model: Path, vulkan: tvm.target.Target) -> None:
    tasks = extract_tasks(lower(import_onnx(model), vulkan))
    (convolution,) = (task for task in tasks if task.name.startswith("conv2d"))
    drawn = list(draw_schedules(convolution, vulkan))
    assert drawn
    for schedule in drawn:
        assert fits(schedule.mod, vulkan)
        assert {"blockIdx.x", "threadIdx.x"} <= thread_tags(schedule.mod["main"])


def test_records_go_to_their_file_and_back(model: Path, tmp_path: Path) -> None:
    resolved = ResolvedTarget("vulkan", FrozenMap(sorted(LEAST.items())), HOST)
    target = tvm_target(resolved.kind, resolved.attributes, resolved.host)
    lowered = lower(import_onnx(model), target)
    schedule: dict[str, str] = {}
    for task in extract_tasks(lowered):
        found = next(draw_schedules(task, target))
        workload = ms.database.MemoryDatabase().commit_workload(task.mod)
        arguments = ms.arg_info.ArgInfo.from_entry_func(task.mod)
        trace = dump_trace(ms.database.TuningRecord(found.trace, workload, [1e-3], target, arguments))
        record = Record(trace, 1e-3, "iris-xe-graphics", 2, "0")
        text = canonical_json(resolved.to_json())
        file = TaskFile(task.key, task.name, dump_workload(task.mod), text, "0", (record,))
        write_task_file(record_path(tmp_path, task.key), file)
        assert read_task_file(record_path(tmp_path, task.key)) == file
        assert read_applicable(tmp_path, task.key, resolved) == file
        assert read_applicable(tmp_path, task.key, replace(resolved, attributes=DEFAULTS)) is None
        schedule[task.key] = record.trace
    database = database_from_schedule(Schedule(FrozenMap(schedule)), extract_tasks(lowered), target)
    coverage = apply_records(lowered, target, database).coverage
    assert coverage.uncovered == {}
    assert coverage.covered.keys() == schedule.keys()
