"""Attention comes with its loops written out: TVM's search refuses it, so it is measured and recorded as it is."""

from __future__ import annotations

from typing import Any

import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import TuneOptions

pytestmark = pytest.mark.compiler


def find_attention(target: Any) -> Any:
    """Return the Task of an attention of one tensor's queries, keys and values."""
    from drawn_attention import draw_attention

    from tvmbuild.compiler.importing.importer import import_model
    from tvmbuild.compiler.pipeline import lower
    from tvmbuild.compiler.tasks import extract_tasks

    lowered = lower(import_model(draw_attention(0).model, "drawn"), target)
    return next(task for task in extract_tasks(lowered) if task.name.startswith("attention"))


def list_targets() -> list[Any]:
    from tvmbuild.compiler.machine.target import tvm_target

    limits = {"max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "thread_warp_size": 32}
    host: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 1})
    card: Attributes = FrozenMap({"arch": "sm_90", **limits})
    return [tvm_target("llvm", host, FrozenMap()), tvm_target("cuda", card, host)]


@pytest.mark.parametrize("index", [0, 1], ids=["llvm", "cuda"])
def test_what_is_written_out_is_measured_once_and_the_search_is_over(
    index: int, capsys: pytest.CaptureFixture[str]
) -> None:
    from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics
    from tvmbuild.tuning.candidate_pool import Timed
    from tvmbuild.tuning.prior import Example, teach
    from tvmbuild.tuning.task_search import Allowance, SearchSetup, TaskSearch, make_cost_model

    skip_tensor_intrinsics()
    target, options = list_targets()[index], TuneOptions()
    setup = SearchSetup(target, options, make_cost_model(options, 1), 1)
    search = TaskSearch(find_attention(target), setup, Allowance(40, 40))
    candidates = search.propose(40)
    assert candidates
    search.accept(candidates, [Timed((1e-6,))] * len(candidates), 1.0)
    assert search.over
    assert search.propose(40) == []
    assert "nothing but the rules' schedules" in capsys.readouterr().out
    records = tuple(search.record(candidate, Timed((1e-6,))) for candidate in candidates)
    assert teach(setup.cost_model, [Example(search.task.mod, records)], target, 1) == 0
