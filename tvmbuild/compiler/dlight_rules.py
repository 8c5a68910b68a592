"""DLight's default schedules of GPU functions: no search, and the start of every search."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.intrinsics import skip_tensor_intrinsics
from tvmbuild.compiler.target import is_gpu


def schedule_rest(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Schedule each function that no record has scheduled; without a schedule it could not run on a GPU."""
    from tvm.s_tir import dlight  # noqa: PLC0415 - GPU targets only; its import is not free

    skip_tensor_intrinsics()
    return dlight.ApplyDefaultSchedule(*_rules())(mod)


def schedule_by_default(function: tirx.PrimFunc, target: tvm.target.Target) -> s_tir.Schedule | None:
    """Return the schedule that a function without a record gets; None where no rule fits it."""
    if not is_gpu(target):
        raise ValueError(f"DLight's rules are for GPUs, not for {target.kind.name}")
    skip_tensor_intrinsics()
    with target:
        for rule in _rules():
            schedule = rule.apply(function, target, False)
            if schedule is not None:
                return schedule[0] if isinstance(schedule, list) else schedule
    return None


def _rules() -> tuple[Any, ...]:
    from tvm.s_tir import dlight  # noqa: PLC0415 - as above

    gpu = dlight.gpu
    return (gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback())
