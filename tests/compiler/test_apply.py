from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tvmbuild.compiler.codegen import executable
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import Task, extract_tasks
from tvmbuild.records.block_names import list_blocks
from tvmbuild.records.schedule import Schedule
from tvmbuild.replay.database import database_from_schedule
from tvmbuild.replay.traces import dump_trace, dump_workload

SaveModel = Callable[..., Path]
Sample = Callable[[Sequence[Task]], ms.database.MemoryDatabase]


def run_net(mod: tvm.ir.IRModule, path: Path, target: tvm.target.Target) -> tuple[np.ndarray, np.ndarray]:
    data = np.random.RandomState(0).uniform(-1, 1, (1, 3, 8, 8)).astype("float32")
    machine = relax.VirtualMachine(build_executable(mod, target), tvm.cpu())
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    return machine["main"](tvm.runtime.tensor(data)).numpy(), want


def test_without_records_nothing_is_covered_and_the_numbers_are_right(
    save_convnet: SaveModel, cpu: tvm.target.Target
) -> None:
    path = save_convnet()
    applied = apply_records(lower(import_onnx(path), cpu), cpu, ms.database.MemoryDatabase())
    assert applied.coverage.covered == {}
    assert applied.coverage.tasks == 3
    assert list(applied.coverage.uncovered.values()) == ["conv2d_maximum_minimum", "conv2d", "transpose"]
    got, want = run_net(applied.mod, path, cpu)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.compiler
def test_records_are_applied_counted_and_weights_repacked(
    save_convnet: SaveModel,
    cpu: tvm.target.Target,
    sample_schedules: Sample,
) -> None:
    path = save_convnet()
    lowered = lower(import_onnx(path), cpu)
    tasks = extract_tasks(lowered)
    applied = apply_records(lowered, cpu, sample_schedules(tasks[:2]))
    assert list(applied.coverage.covered) == [task.key for task in tasks[:2]]
    assert list(applied.coverage.uncovered) == [task.key for task in tasks[2:]]
    text = applied.mod["main"].script()
    assert "_prepacked" in text
    assert text.count("R.call_tir(") == 3  # the repacking itself was folded away
    got, want = run_net(applied.mod, path, cpu)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.compiler
def test_records_of_one_model_serve_another(
    save_convnet: SaveModel,
    cpu: tvm.target.Target,
    sample_schedules: Sample,
) -> None:
    database = sample_schedules(extract_tasks(lower(import_onnx(save_convnet()), cpu)))
    path = save_convnet(seed=7, prefix="renamed/", name="b.onnx")
    applied = apply_records(lower(import_onnx(path), cpu), cpu, database)
    assert applied.coverage.uncovered == {}
    got, want = run_net(applied.mod, path, cpu)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.compiler
def test_gpu_functions_without_records_get_threads(save_convnet: SaveModel, gpu: tvm.target.Target) -> None:
    applied = apply_records(lower(import_onnx(save_convnet()), gpu), gpu, ms.database.MemoryDatabase())
    assert applied.coverage.covered == {}
    functions = [f for f in applied.mod.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    assert functions
    assert all("threadIdx.x" in function.script() for function in functions)


def test_a_main_of_very_many_calls_stays_bytecode(
    save_convnet: SaveModel, cpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_convnet()
    lowered = lower(import_onnx(path), cpu)
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    data = np.random.default_rng(0).uniform(-1, 1, lowered.inputs[0].shape).astype("float32")
    outputs = []
    for most in (executable.MAX_COMPILED, 0):
        monkeypatch.setattr(executable, "MAX_COMPILED", most)
        machine = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu())
        outputs += [machine[name](tvm.runtime.tensor(data)).numpy() for name in ("main", executable.PROFILED)]
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    for got in outputs:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.compiler
def test_a_record_serves_an_equal_task_whose_blocks_have_other_names(
    save_model: SaveModel, cpu: tvm.target.Target, sample_schedules: Sample
) -> None:
    weights = {
        "w": np.random.default_rng(0).uniform(-1, 1, (16, 3, 3, 3)).astype("float32"),
        "zero": np.array(0, "float32"),
    }
    first, second = (
        save_model([helper.make_node("Conv", ["x", "w"], ["a"]), node], weights, name=f"{node.op_type}.onnx")
        for node in (helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Max", ["a", "zero"], ["y"]))
    )
    recorded = extract_tasks(lower(import_onnx(first), cpu))[0]
    lowered = lower(import_onnx(second), cpu)
    tasks = extract_tasks(lowered)
    assert (recorded.key, recorded.name) == (tasks[0].key, "conv2d_relu")
    assert tasks[0].name == "conv2d_maximum"
    (record,) = sample_schedules([recorded]).get_all_tuning_records()
    blocks = list_blocks(dump_workload(recorded.mod))
    schedule = Schedule(FrozenMap({recorded.key: dump_trace(record)}), blocks=FrozenMap({recorded.key: blocks}))
    applied = apply_records(lowered, cpu, database_from_schedule(schedule, tasks, cpu))
    assert list(applied.coverage.covered) == [recorded.key]
    got, want = run_net(applied.mod, second, cpu)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
