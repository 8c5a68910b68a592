"""Prior knowledge: records of other Tasks that the cost model learns from before the first batch.

A record file holds a Task's best schedules and no bad ones. Random candidates of the same Task stand in for bad ones:
the model learns how the best schedules differ from them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord
from tvm.s_tir.meta_schedule.runner import RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import ReplayTrace

from tvmbuild.tuning.space import generate_space, make_space

RANDOM = 8
"""The number of random candidates for each Task."""
RANDOM_SCORE = 0.25
"""The assumed speed of a random candidate as a fraction of the best record's speed: the median over searches of
convolutions.
"""


@dataclass(frozen=True)
class Example:
    """A Task that was searched before: its module, and its best records with their times."""

    mod: tvm.ir.IRModule
    records: tuple[TuningRecord, ...]


def teach(cost_model: Any, examples: Iterable[Example], target: tvm.target.Target, threads: int) -> int:
    """Teach ``cost_model`` the examples. Return the number of candidates that it has seen.

    ``threads`` is the number of threads that draw random candidates.
    """
    seen = 0
    for example in examples:
        context = _context(example, target, threads)
        if context is None:
            continue
        good = [record.as_measure_candidate() for record in example.records]
        seconds = [statistics.median(float(value) for value in record.run_secs) for record in example.records]
        others = list(context.generate_measure_candidates() or ())
        context.post_tuning()
        times = [*seconds, *[min(seconds) / RANDOM_SCORE] * len(others)]
        cost_model.update(context, [*good, *others], [RunnerResult([time], None) for time in times])
        seen += len(times)
    return seen


def _context(example: Example, target: tvm.target.Target, threads: int) -> Any | None:
    context = meta_schedule.TuneContext(
        example.mod,
        target=target,
        space_generator=make_space(target),
        search_strategy=ReplayTrace(),
        rand_state=1,
        num_threads=threads,
    )
    space = generate_space(context)
    if space is None:
        return None
    model = meta_schedule.cost_model.RandomModel()
    context.pre_tuning(RANDOM, RANDOM, space, MemoryDatabase(), model)
    return context
