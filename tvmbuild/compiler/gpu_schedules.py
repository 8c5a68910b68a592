"""Schedules of GPU functions without a search: our own for sums, DLight's for the rest."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.fallback import REFUSALS, is_scheduled
from tvmbuild.compiler.gpu_products import list_products
from tvmbuild.compiler.gpu_sums import list_short_sums
from tvmbuild.compiler.intrinsics import skip_tensor_intrinsics
from tvmbuild.compiler.target import is_gpu


def schedule_rest(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Schedule each function that no record has scheduled; without a schedule it could not run on a GPU."""
    result = tvm.ir.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    for variable, function in mod.functions.items():
        if isinstance(function, tirx.PrimFunc) and not is_scheduled(function):
            for schedule in list_schedules(function, target, 1):
                scheduled = schedule.mod["main"].with_attr("tirx.is_scheduled", True)
                result.update_func(result.get_global_var(variable.name_hint), scheduled)
    return result


def list_schedules(function: tirx.PrimFunc, target: tvm.target.Target, limit: int) -> list[s_tir.Schedule]:
    """Return at most ``limit`` schedules worth measuring; the first is what a function without a record gets."""
    if not is_gpu(target):
        raise ValueError(f"these rules are for GPUs, not for {target.kind.name}")
    try:
        ours = list_products(function, target, max(1, limit - 1)) or list_short_sums(function, limit)
    except REFUSALS:  # a form that they did not foresee
        ours = []
    if len(ours) == limit:
        return ours
    return [*ours, *_schedule_by_dlight(function, target)]


def _schedule_by_dlight(function: tirx.PrimFunc, target: tvm.target.Target) -> Iterator[s_tir.Schedule]:
    from tvm.s_tir.dlight import gpu  # noqa: PLC0415 - GPU targets only; its import is not free

    skip_tensor_intrinsics()
    with target:
        for rule in (gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()):
            try:
                schedule = rule.apply(function, target, False)
            except REFUSALS:
                continue
            if schedule is not None:
                yield schedule[0] if isinstance(schedule, list) else schedule
                return
