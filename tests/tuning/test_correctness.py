from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.compiler


def make_sum(last: float) -> Any:
    import tvm
    from tvm import te

    x, w = te.placeholder((16, 32), "float32", "x"), te.placeholder((32, 8), "float32", "w")
    k = te.reduce_axis((0, 32), "k")
    product = te.compute((16, 8), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="product")
    out = te.compute((16, 8), lambda i, j: product[i, j] * tvm.tirx.const(last, "float32"), name="out")
    return tvm.IRModule({"main": te.create_prim_func([x, w, out])})


def test_a_schedule_that_computes_something_else_is_found() -> None:
    import tvm
    from tvm import s_tir

    from tvmbuild.tuning.candidate_pool import find_difference

    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    workload = make_sum(1.0)
    schedule = s_tir.Schedule(workload)
    block = schedule.get_sblock("product")
    _, _, k = schedule.get_loops(block)
    schedule.split(k, [8, 4])
    assert find_difference(schedule.mod, workload, target) is None
    fault = find_difference(make_sum(1.1), workload, target)
    assert fault is not None
    assert fault.startswith("argument 2 differs in ")


def test_the_fastest_right_one_is_elected() -> None:
    from tvmbuild.tuning.batches import drop_wrong

    class Record:
        def __init__(self, fault: str | None) -> None:
            self.fault = fault
            self.workload = self
            self.mod = None

        def as_measure_candidate(self) -> Record:
            return self

    class Pool:
        checked = 0

        def find_fault(self, candidate: Any, _workload: Any) -> str | None:
            self.checked += 1
            fault: str | None = candidate.fault
            return fault

    pool, seconds = Pool(), [3.0, 1.0, None, 2.0, 0.5]
    records = [Record(None), Record("off by 1"), Record("never looked at"), Record(None), Record("off by 2")]
    assert drop_wrong(pool, records, seconds) == ["off by 2", "off by 1"]  # type: ignore[arg-type]
    assert seconds == [3.0, None, None, 2.0, None]
    assert pool.checked == 3


@pytest.mark.parametrize("rows", [13, 197])
def test_what_rules_leave_to_be_done_is_done_to_a_candidate_too(rows: int) -> None:
    """Rows of a softmax and tiles that do not divide: no primitive of TVM's writes their loops."""
    import tvm
    import tvm_ffi
    from tvm import te, topi

    from tvmbuild.compiler.schedules.cpu.rules import list_schedules
    from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes
    from tvmbuild.tuning.candidate_pool import find_difference

    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})
    x, w = te.placeholder((rows, 40), "float32", "x"), te.placeholder((40, 24), "float32", "w")
    for function in (te.create_prim_func([x, topi.nn.softmax(x)]), te.create_prim_func([x, w, topi.matmul(x, w)])):
        mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        schedule, *_ = list_schedules(mod, target, 1)
        finished = run_tir_passes(schedule.mod, target)
        assert not tvm_ffi.structural_equal(finished, schedule.mod)
        assert find_difference(schedule.mod, mod, target) is None
