"""The candidates that MetaSchedule may propose for a GPU; no GPU is needed."""

from __future__ import annotations

from typing import Any

import pytest

from tvmbuild.base.frozen_map import FrozenMap

pytestmark = pytest.mark.compiler

HOST = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"})
LIMITS = FrozenMap({"max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "thread_warp_size": 32})


def card(arch: str) -> Any:
    from tvmbuild.compiler.machine.target import tvm_target

    return tvm_target("cuda", FrozenMap({"arch": arch, **LIMITS}), HOST)


def matmul(dtype: str) -> Any:
    """Return a product of 64 x 64 x 64, added up in float32."""
    from tvm import te

    from tvmbuild.compiler.tasks import normalised

    left, right = (te.placeholder((64, 64), name=name, dtype=dtype) for name in ("left", "right"))
    k = te.reduce_axis((0, 64))
    product = te.compute(
        (64, 64),
        lambda i, j: te.sum(left[i, k].astype("float32") * right[k, j].astype("float32"), axis=k),
        name="product",
    )
    return normalised(te.create_prim_func([left, right, product]))


def propose(mod: Any, target: Any) -> list[str]:
    """Return sixteen random candidates' scripts, of all spaces."""
    from tvm.s_tir import meta_schedule
    from tvm.s_tir.meta_schedule.database import MemoryDatabase
    from tvm.s_tir.meta_schedule.search_strategy import ReplayTrace

    from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics
    from tvmbuild.tuning.space import make_space

    skip_tensor_intrinsics()
    context = meta_schedule.TuneContext(
        mod,
        target=target,
        space_generator=make_space(target),
        search_strategy=ReplayTrace(),
        rand_state=1,
        num_threads=1,
    )
    space = context.generate_design_space()
    context.pre_tuning(16, 16, space, MemoryDatabase(), meta_schedule.cost_model.RandomModel())
    return [candidate.sch.mod.script() for candidate in context.generate_measure_candidates() or ()]


@pytest.mark.parametrize(("dtype", "arch"), [("float32", "sm_75"), ("float16", "sm_87")])
def test_candidates_for_a_card_bind_its_threads(dtype: str, arch: str) -> None:
    scripts = propose(matmul(dtype), card(arch))
    assert scripts
    assert all("blockIdx.x" in script and "threadIdx.x" in script for script in scripts)


def test_a_search_begins_with_the_schedule_that_an_untuned_package_has() -> None:
    from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord

    from tvmbuild.tuning.space import list_known

    mod, target = matmul("float32"), card("sm_90")
    found = list_known(mod, target, 16)
    assert 2 <= len(found) <= 16
    assert all("threadIdx.x" in each.sch.mod.script() for each in found)
    known = found[0]
    database = MemoryDatabase()
    record = TuningRecord(known.sch.trace, database.commit_workload(mod), [1e-6], target, known.args_info)
    database.commit_tuning_record(record)
    replayed = database.query_schedule(mod, target, "main")
    assert replayed is not None
    assert replayed.mod.script() == known.sch.mod.script()
