"""A real search of one small Task: candidates are built, run and recorded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tvmbuild.specs import TuneOptions

pytestmark = pytest.mark.compiler

Searched = tuple[Any, Any, list[Any], list[float | None]]


@pytest.fixture(scope="module")
def searched() -> Searched:
    """(task, target, batches, the fastest two timed again)."""
    import tvm
    from tvm import te
    from tvm.s_tir.meta_schedule.database import MemoryDatabase

    from tvmbuild.compiler.tasks import Task, normalised, task_key
    from tvmbuild.records.traces import load_record
    from tvmbuild.tuner.pool import candidate_pool
    from tvmbuild.tuner.search import Searcher
    from tvmbuild.tuner.worker import skip_tensor_intrinsics

    skip_tensor_intrinsics()
    os.environ["TVM_NUM_THREADS"] = "1"
    left, right = te.placeholder((64, 64), name="left"), te.placeholder((64, 64), name="right")
    k = te.reduce_axis((0, 64))
    product = te.compute((64, 64), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="product")
    mod = normalised(te.create_prim_func([left, right, product]))
    task = Task(task_key(mod), "matmul", mod, 1)
    target = tvm.target.Target({"kind": "llvm", "mcpu": "generic", "num-cores": 1})
    with candidate_pool(target, workers=1) as pool:
        searcher = Searcher(target, TuneOptions(repeat=1, min_repeat_ms=1), pool)
        batches = list(searcher.search(task, 40, []))
        workload = MemoryDatabase().commit_workload(mod)
        fastest = sorted((one for batch in batches for one in batch.measured), key=lambda one: one.seconds)[:2]
        again = searcher.time_again([load_record(one.trace, workload, target) for one in fastest])
        assert list(pool.folder.iterdir()) == []
    return task, target, batches, again


def test_a_search_measures_as_many_candidates_as_it_may(
    searched: Searched,
) -> None:
    _, _, batches, _ = searched
    assert [batch.candidates for batch in batches] == [32, 8]
    assert sum(len(batch.measured) for batch in batches) + sum(len(b.errors) for b in batches) == 40
    assert all(0 < one.seconds < 1 for batch in batches for one in batch.measured)


def test_the_fastest_are_timed_again(searched: Searched) -> None:
    _, _, _, again = searched
    assert len(again) == 2
    assert all(seconds is not None and 0 < seconds < 1 for seconds in again)


def test_what_a_search_found_replays_on_the_task(searched: Searched) -> None:
    from tvm.s_tir.meta_schedule.database import MemoryDatabase

    from tvmbuild.records.database import load_known
    from tvmbuild.records.store import Record

    task, target, batches, _ = searched
    record = Record(batches[-1].measured[0].trace, 1e-6, "znver4", 1, "0.27.0")
    ((same, known),) = load_known([record], task.mod, target)
    assert same == record
    database = MemoryDatabase()
    database.commit_workload(task.mod)
    database.commit_tuning_record(known)
    assert database.query_schedule(task.mod, target, "main") is not None


def test_a_candidate_that_cannot_be_built_or_run_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    import tvm

    from tvmbuild.tuner.pool import candidate_pool
    from tvmbuild.tuner.worker import Timing

    class Broken:
        class sch:  # noqa: N801 - MetaSchedule's name
            mod = "not a module"

    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    with candidate_pool(target, workers=1) as pool:
        (built,) = pool.build([Broken()])
        assert built.library is None
        assert built.error is not None
        assert built.error.startswith("build failed: ")
        timed = pool.time(str(tmp_path / "absent.so"), [], Timing(1, 1, 1))
        assert timed.samples == ()
        assert timed.seconds == float("inf")
        assert timed.error is not None
        assert "absent.so" in timed.error
