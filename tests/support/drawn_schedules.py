"""Schedules of MetaSchedule's search space, drawn without measuring any."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics
from tvmbuild.compiler.tasks import Task


def draw_schedules(task: Task, target: tvm.target.Target) -> Iterator[tvm.s_tir.Schedule]:
    """Yield some schedules of the search space that its own postprocessors accept."""
    skip_tensor_intrinsics()
    context = ms.TuneContext(
        mod=task.mod,
        target=target,
        space_generator="post-order-apply",
        search_strategy="evolutionary",
        rand_state=1,
        num_threads=1,
    ).clone()
    for space in context.generate_design_space():
        for seed in range(1, 9):
            schedule = tvm.s_tir.Schedule(task.mod, seed=seed)
            tvm.s_tir.Trace(space.trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            if all(postprocessor.apply(schedule) for postprocessor in context.space_generator.postprocs):
                yield schedule
