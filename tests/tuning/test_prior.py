"""The cost model learns from Tasks that were searched before."""

from __future__ import annotations

from typing import Any

import pytest

from tvmbuild.base.specs import TuneOptions

pytestmark = pytest.mark.compiler


def matmul(size: int) -> Any:
    from tvm import te

    from tvmbuild.compiler.tasks import Task, normalised, task_key

    left, right = te.placeholder((size, size), name="left"), te.placeholder((size, size), name="right")
    k = te.reduce_axis((0, size))
    product = te.compute((size, size), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="product")
    mod = normalised(te.create_prim_func([left, right, product]))
    return Task(task_key(mod), "matmul", mod, 1)


def test_a_taught_model_tells_the_schedules_that_win_from_others() -> None:
    import tvm

    from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics
    from tvmbuild.tuning.candidate_pool import Timed
    from tvmbuild.tuning.prior import RANDOM, Example, teach
    from tvmbuild.tuning.task_search import Allowance, SearchSetup, Start, TaskSearch, make_cost_model

    skip_tensor_intrinsics()
    target = tvm.target.Target({"kind": "llvm", "mcpu": "generic", "num-cores": 1})
    options = TuneOptions(patience=None)
    setup = SearchSetup(target, options, make_cost_model(options, 1), 1)
    examples, won = [], []
    for size in (16, 32, 48, 64, 128):
        search = TaskSearch(matmul(size), setup, Allowance(3, 3))
        candidates = search.propose(3)
        records = tuple(search.record(candidate, Timed((1e-6,))) for candidate in candidates)
        examples.append(Example(search.task.mod, records))
        won.append((search, candidates))
    assert not setup.cost_model.trees.trained
    assert teach(setup.cost_model, examples, target, 1) == 5 * (3 + RANDOM)
    assert setup.cost_model.trees.trained

    search, candidates = won[-1]
    others = TaskSearch(search.task, setup, Allowance(32, 32), Start(searched=1)).propose(32)
    scores = [setup.cost_model.predict(search._context, some).mean() for some in (candidates, others)]
    assert scores[0] > scores[1]


def test_nothing_to_learn_from_is_no_error() -> None:
    import tvm

    from tvmbuild.tuning.prior import teach
    from tvmbuild.tuning.task_search import make_cost_model

    model = make_cost_model(TuneOptions(), 1)
    assert teach(model, [], tvm.target.Target({"kind": "llvm", "num-cores": 1}), 1) == 0
    assert not model.trees.trained
