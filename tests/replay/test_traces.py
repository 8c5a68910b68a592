"""Real traces of a real search space, written and read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def prepacked() -> tuple[Any, Any, Any]:
    """(workload, target, record) of a convolution whose trace moves its weights into another layout."""
    import tvm
    from tvm import te, topi
    from tvm.s_tir import meta_schedule
    from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord

    from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics

    skip_tensor_intrinsics()
    data, weight = te.placeholder((1, 8, 8, 16)), te.placeholder((3, 3, 16, 16))
    function = te.create_prim_func([data, weight, topi.nn.conv2d_nhwc(data, weight, 1, 1, 1)])
    function = function.with_attrs({"global_symbol": "main", "tirx.noalias": True, "layout_free_buffers": [1]})
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    context = meta_schedule.TuneContext(
        tvm.IRModule({"main": function}),
        target=target,
        space_generator=meta_schedule.space_generator.PostOrderApply(
            sch_rules="llvm", postprocs="llvm", mutator_probs="llvm"
        ),
        search_strategy=meta_schedule.search_strategy.ReplayTrace(),
        num_threads=1,
        rand_state=1,
    )
    context.pre_tuning(8, 8, context.generate_design_space(), MemoryDatabase(), None)
    candidate = context.generate_measure_candidates()[0]
    workload = MemoryDatabase().commit_workload(tvm.IRModule({"main": function}))
    return workload, target, TuningRecord(candidate.sch.trace, workload, [1.0], target, candidate.args_info)


def test_a_trace_with_a_layout_goes_to_json_and_back(prepacked: tuple[Any, Any, Any]) -> None:
    from tvm.s_tir.meta_schedule.database import MemoryDatabase

    from tvmbuild.replay.traces import dump_trace, load_record

    workload, target, record = prepacked
    text = dump_trace(record)
    assert "TransformLayout" in text
    loaded = load_record(text, workload, target)
    assert dump_trace(loaded) == text
    database = MemoryDatabase()
    database.commit_workload(workload.mod)
    database.commit_tuning_record(loaded)
    assert database.query_schedule(workload.mod, target, "main") is not None


def test_a_workload_goes_to_json_and_back(prepacked: tuple[Any, Any, Any]) -> None:
    import tvm_ffi

    from tvmbuild.compiler.tasks import task_key
    from tvmbuild.replay.traces import dump_workload, load_workload

    mod = prepacked[0].mod
    again = load_workload(dump_workload(mod))
    assert tvm_ffi.structural_equal(mod, again, map_free_vars=True)
    assert task_key(mod) == task_key(again)


@pytest.mark.parametrize("edit", ["unknown instruction", "lost input", "not a trace"])
def test_a_trace_that_tvm_cannot_read_is_an_error(prepacked: tuple[Any, Any, Any], edit: str) -> None:
    from tvmbuild.replay.traces import dump_trace, load_record

    workload, target, record = prepacked
    data = json.loads(dump_trace(record))
    if edit == "unknown instruction":
        data["instructions"][0][0] = "RunAnything"
    elif edit == "lost input":
        data["instructions"][3][1] = ["b999"]
    else:
        data["instructions"] = 7
    with pytest.raises(TvmbuildError, match="cannot be read by this TVM"):
        load_record(json.dumps(data), workload, target)


def test_the_shipped_records_hold_the_workload_that_their_key_names(project_root: Path) -> None:
    from tvmbuild.compiler.tasks import task_key
    from tvmbuild.records.store import read_task_file
    from tvmbuild.replay.traces import load_workload

    paths = sorted((project_root / "records").glob("*/*[0-9a-f].json"))
    paths = [path for path in paths if path.name != "target.lock.json"][::9]
    assert paths
    for path in paths:
        file = read_task_file(path)
        assert file is not None
        assert task_key(load_workload(file.workload)) == file.key == path.stem
