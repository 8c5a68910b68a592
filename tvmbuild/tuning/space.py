"""The search space of a Task: MetaSchedule's rules for the target's kind."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate
from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

from tvmbuild.compiler.culprit import TVM_ERRORS, summarize
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.schedules.cpu.rules import list_schedules
from tvmbuild.compiler.schedules.gpu import rules as gpu_schedules


def make_space(target: tvm.target.Target) -> Any:
    """Return the space generator for a target's Tasks.

    For a GPU it uses the rules `cuda`, not `cuda-tensorcore`. With the latter, three in four candidates for float16
    products with float32 sums fail in TVM 0.27, which lets buffers of both types share memory and then refuses the
    result.
    """
    kind = "cuda" if is_gpu(target) else "llvm"
    return PostOrderApply(sch_rules=kind, postprocs=kind, mutator_probs=kind)


def generate_space(context: Any) -> list[s_tir.Schedule] | None:
    """Return the schedules from which the context's search begins, or None if TVM's rules refuse the function.

    They refuse attention, whose loops are written out, and may refuse other unforeseen forms.
    """
    try:
        return list(context.generate_design_space())
    except TVM_ERRORS as error:
        print(f"{context.task_name}: nothing but the rules' schedules is measured, for TVM says {summarize(error)}")
        return None


def list_known(mod: tvm.ir.IRModule, target: tvm.target.Target, limit: int) -> list[MeasureCandidate]:
    """Return at most ``limit`` candidates with schedules that the rules make without a search.

    The search measures them first, so that a tuned Task is no slower than an untuned one.
    """
    on_gpu = is_gpu(target)
    schedules = (
        gpu_schedules.list_schedules(mod["main"], target, limit) if on_gpu else list_schedules(mod, target, limit)
    )
    return [
        MeasureCandidate(schedule, ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)) for schedule in schedules
    ]
