"""A real search of one small Task: candidates are built, run and recorded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tvmbuild.base.specs import TuneOptions

pytestmark = pytest.mark.compiler

Searched = tuple[Any, Any, list[Any], list[Any], list[float | None]]


class Listener:
    """Keeps the reported measurements."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.told = 0

    def journal(self, search: Any, candidate: Any, timed: Any) -> None:
        self.told += 1
        if timed.samples:
            self.records.append((timed.seconds, search.record(candidate, timed)))


@pytest.fixture(scope="module")
def searched() -> Searched:
    """(task, target, batches, records by time, the fastest and the slowest timed again)."""
    import tvm
    from tvm import te

    from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics
    from tvmbuild.compiler.tasks import Task, normalised, task_key
    from tvmbuild.replay.database import load_known
    from tvmbuild.replay.traces import dump_trace
    from tvmbuild.tuning.batches import run_searches, time_again
    from tvmbuild.tuning.candidate_pool import candidate_pool
    from tvmbuild.tuning.cores import share_cores
    from tvmbuild.tuning.task_search import Allowance, SearchSetup, TaskSearch, make_cost_model

    skip_tensor_intrinsics()
    os.environ["TVM_NUM_THREADS"] = "1"
    left, right = te.placeholder((64, 64), name="left"), te.placeholder((64, 64), name="right")
    k = te.reduce_axis((0, 64))
    product = te.compute((64, 64), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="product")
    mod = normalised(te.create_prim_func([left, right, product]))
    task = Task(task_key(mod), "matmul", mod, 1)
    target = tvm.target.Target({"kind": "llvm", "mcpu": "generic", "num-cores": 1})
    cores, options, listener = share_cores(1), TuneOptions(repeat=1, min_repeat_ms=1, patience=None), Listener()
    with candidate_pool(target, cores) as pool:
        setup = SearchSetup(target, options, make_cost_model(options, 1), 1)
        search = TaskSearch(task, setup, Allowance(40, 40))
        batches = list(run_searches([search], pool, cores, options, listener))
        records = sorted(listener.records, key=lambda pair: pair[0])
        best, slow = [record for _, record in records[:5]], records[-1][1]
        kept = [search.shelf.find(dump_trace(record)) for record in best]
        assert sorted(map(str, pool.folder.glob("*.so"))) == sorted(map(str, kept))
        ((_, loaded),) = load_known([_as_record(best[0])], task.mod, target)
        again = time_again(pool, [loaded, slow], search.shelf)
        assert list(pool.folder.glob("*.so")) == []
    assert listener.told == 40
    return task, target, batches, records, again


def _as_record(found: Any) -> Any:
    from tvmbuild.records.task_file import Record
    from tvmbuild.replay.traces import dump_trace

    return Record(dump_trace(found), 1e-6, "znver4", 1, "0.27.0")


def test_a_search_measures_as_many_candidates_as_it_may(searched: Searched) -> None:
    _, _, batches, records, _ = searched
    assert [len(batch.timed) for batch in batches] == [16, 24]
    assert len(records) + sum(len(batch.errors) for batch in batches) == 40
    assert all(0 < seconds < 1 for seconds, _ in records)
    assert batches[-1].search.curve.best == records[0][0]


def test_a_search_begins_with_what_the_rules_would_do(searched: Searched) -> None:
    first, second = searched[2]
    assert not any(bool(candidate.sch.trace.decisions) for candidate in first.candidates)
    assert all(bool(candidate.sch.trace.decisions) for candidate in second.candidates)
    assert not first.errors


def test_a_search_that_is_late_measures_its_first_candidates_alone(searched: Searched) -> None:
    from tvmbuild.tuning.task_search import Allowance, SearchSetup, TaskSearch, make_cost_model

    task, target, *_ = searched
    options = TuneOptions(patience=None)
    search = TaskSearch(task, SearchSetup(target, options, make_cost_model(options, 1), 1, 0.0), Allowance(40, 40))
    assert not search.over
    assert len(search.propose(40)) == 16
    assert search.over
    assert (search.exhausted, search.settled) == (False, False)


def test_the_best_are_timed_again_built_already_or_not(searched: Searched) -> None:
    *_, again = searched
    assert len(again) == 2
    assert all(seconds is not None and 0 < seconds < 1 for seconds in again)


def test_what_a_search_found_replays_on_the_task(searched: Searched) -> None:
    from tvm.s_tir.meta_schedule.database import MemoryDatabase

    from tvmbuild.replay.database import load_known

    task, target, _, records, _ = searched
    record = _as_record(records[0][1])
    ((same, known),) = load_known([record], task.mod, target)
    assert same == record
    database = MemoryDatabase()
    database.commit_workload(task.mod)
    database.commit_tuning_record(known)
    assert database.query_schedule(task.mod, target, "main") is not None


def test_a_candidate_that_cannot_be_built_or_run_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    import tvm

    from tvmbuild.devices.candidates import Timing
    from tvmbuild.tuning.candidate_pool import candidate_pool, wait_for_library
    from tvmbuild.tuning.cores import share_cores

    class Broken:
        class sch:  # noqa: N801 - MetaSchedule's name
            mod = "not a module"

    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    with candidate_pool(target, share_cores(1)) as pool:
        library, error = wait_for_library(*pool.build([Broken()]))
        assert library is None
        assert error is not None
        assert error.startswith("build failed: ")
        timed = pool.time(str(tmp_path / "absent.so"), [], Timing(1, 1, 1))
        assert timed.samples == ()
        assert timed.seconds == float("inf")
        assert timed.error is not None
        assert "absent.so" in timed.error


class Drawing:
    """A MetaSchedule search that fails that many times first."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def generate_measure_candidates(self) -> list[str]:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("parallel_for_dynamic error with\nLiteral value 2601123840 exceeds range of int32")
        return [f"candidate {number}" for number in range(8)]


@pytest.mark.parametrize(("failures", "proposed"), [(2, 8), (100, 0)], ids=["twice", "always"])
def test_a_draw_on_which_tvm_fails_is_drawn_anew(
    failures: int, proposed: int, searched: Searched, capsys: pytest.CaptureFixture[str]
) -> None:
    from tvmbuild.tuning.task_search import Allowance, SearchSetup, TaskSearch

    task, target, *_ = searched
    search = TaskSearch(task, SearchSetup(target, TuneOptions(), None, 1), Allowance(16, 16))
    search._started, search._context = True, Drawing(failures)
    assert len(search.propose(16)) == proposed
    assert search.exhausted is (proposed == 0)
    said = f"{task.name}: TVM's search failed on what it drew: Literal value 2601123840 exceeds range of int32"
    assert said in capsys.readouterr().out
