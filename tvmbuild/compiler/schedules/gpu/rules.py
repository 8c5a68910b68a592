"""Schedules of GPU functions without a search: by our own rules for reductions, by DLight's rules for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics
from tvmbuild.compiler.ir.calls import display_name
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import is_scheduled, list_blocks, mark_scheduled
from tvmbuild.compiler.machine.limits import staging_limits
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.schedules.attempt import try_dlight
from tvmbuild.compiler.schedules.empty_loops import drop_empty_loops
from tvmbuild.compiler.schedules.gpu.matrices import view_matrices
from tvmbuild.compiler.schedules.gpu.outer_blocks import list_outer_blocks
from tvmbuild.compiler.schedules.gpu.products import list_products
from tvmbuild.compiler.schedules.gpu.shared_reductions import list_shared_reductions
from tvmbuild.compiler.schedules.gpu.sliding_window import list_windows
from tvmbuild.compiler.schedules.gpu.staged import list_staged
from tvmbuild.compiler.schedules.gpu.sums import list_short_sums
from tvmbuild.compiler.schedules.gpu.tensor_cores import list_on_tensor_cores
from tvmbuild.errors import TvmbuildError

_BYTE = 8


def schedule_rest(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Schedule each function that no record has scheduled; without a schedule it could not run on a GPU.

    Raises TvmbuildError if no rule has a schedule for a function.
    """
    return map_prim_funcs(
        mod,
        lambda function, name: None if is_scheduled(function) else mark_scheduled(_schedule(function, name, target)),
    )


def _schedule(function: tirx.PrimFunc, name: str, target: tvm.target.Target) -> tirx.PrimFunc:
    function = drop_empty_loops(function)
    for schedule in list_schedules(function, target, 1):
        return schedule.mod["main"]
    if any(block.iter_vars for block in list_blocks(function)):
        raise TvmbuildError(
            f"no rule has a schedule for {display_name(name)} on {target.kind.name}, and without one it cannot run",
            "tune it, or build the model for a CPU",
        )
    return function  # it has nothing to compute, or was written with its loops


def list_schedules(function: tirx.PrimFunc, target: tvm.target.Target, limit: int) -> list[s_tir.Schedule]:
    """Return at most ``limit`` schedules worth measuring; a function without a record gets the first one.

    All schedules keep to the target's limits of threads and shared memory. Raises ValueError if the target is a CPU.
    """
    if not is_gpu(target):
        raise ValueError(f"these rules are for GPUs, not for {target.kind.name}")
    products = list_products(function, target, max(1, limit - 1))
    first = _list_first(function, target, limit, is_product=bool(products))
    fitting = [schedule for schedule in _alternate(first, products) if fits(schedule.mod, target)]
    if len(fitting) >= limit:
        return fitting[:limit]
    return [*fitting, *_schedule_by_dlight(function, target)]


def _list_first(
    function: tirx.PrimFunc, target: tvm.target.Target, limit: int, *, is_product: bool
) -> list[s_tir.Schedule]:
    """Return the schedules to try before those of `list_products`, the most promising first."""
    matrices = view_matrices(function)
    windows = list_windows(function, limit, only_in_vectors=is_product)
    first = [*list_on_tensor_cores(matrices, target, limit), *windows, *list_staged(matrices, target, limit)]
    if matrices is None or not first:
        first += list_short_sums(function, limit, only_in_vectors=is_product)
    return first or list_shared_reductions(function) or list_outer_blocks(function)


def _alternate(first: Sequence[s_tir.Schedule], second: Sequence[s_tir.Schedule]) -> Iterator[s_tir.Schedule]:
    """Yield one schedule of each list in turn, so that a search measures the best of both."""
    for pair in zip_longest(first, second):
        yield from (each for each in pair if each is not None)


def fits(mod: tvm.ir.IRModule, target: tvm.target.Target) -> bool:
    """Return whether the scheduled ``main`` keeps to the target's limits of threads and shared memory (TVM's check)."""
    skip_tensor_intrinsics()
    rules: dict[str, Any] = {"sch_rules": [], "mutator_probs": {}, "postprocs": [ms.postproc.VerifyGPUCode()]}
    checked = _leave_room_for_bytes(mod, _allow_launched(mod, target))
    context = ms.TuneContext(mod=mod, target=checked, space_generator=ms.space_generator.PostOrderApply(**rules))
    context.clone()
    (verify,) = context.space_generator.postprocs
    return bool(verify.apply(s_tir.Schedule(mod)))


def _leave_room_for_bytes(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.target.Target:
    """Return a Vulkan target with a fourth of its shared memory, if the kernel keeps bytes there.

    Our Vulkan code keeps each byte in 32 bits, and TVM's check counts 8.
    """
    buffers = [buffer for block in list_blocks(mod["main"]) for buffer in block.alloc_buffers]
    has_bytes = any(str(each.scope()) == "shared" and tvm.DataType(str(each.dtype)).bits == _BYTE for each in buffers)
    if target.kind.name != "vulkan" or not has_bytes:
        return target
    left = staging_limits(target.attrs).shared_bytes // 4
    return tvm.target.Target({**target.export(), "max_shared_memory_per_block": left}, host=target.host)


def _allow_launched(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.target.Target:
    """Return the target with the shared memory that a launch may ask for, if the kernel has no other.

    TVM's check adds up the operands and the output of a product on tensor cores, which share this memory
    (`WarpTile.shared_bytes` knows how much); so twice as much is allowed.
    """
    scopes = {str(buffer.scope()) for block in list_blocks(mod["main"]) for buffer in block.alloc_buffers}
    limits = staging_limits(target.attrs)
    if "shared.dyn" not in scopes or "shared" in scopes or limits.launched_bytes == limits.shared_bytes:
        return target
    return tvm.target.Target(
        {**target.export(), "max_shared_memory_per_block": 2 * limits.launched_bytes}, host=target.host
    )


def _schedule_by_dlight(function: tirx.PrimFunc, target: tvm.target.Target) -> Iterator[s_tir.Schedule]:
    from tvm.s_tir.dlight import gpu  # noqa: PLC0415 - GPU targets only; its import is not free

    skip_tensor_intrinsics()
    of_sums = () if _is_injective(function) else (gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction())
    with target:
        for rule in (*of_sums, gpu.Fallback()):
            schedule = try_dlight(rule, function, target)
            if schedule is not None and _is_sound(schedule) and fits(schedule.mod, target):
                yield schedule
                return


def _is_sound(schedule: s_tir.Schedule) -> bool:
    """Return whether the outermost loop of each reduction is the grid of a kernel, and the reduction is as it was.

    DLight leaves the loops of a reduction to a scalar unbound: each iteration would launch a kernel. It inlines what
    follows a reduction of one step into it, where it applies to the first value, too.
    """
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    reductions = [block for block in blocks if schedule.get(block).init is not None]
    outermost = [schedule.get_loops(block)[:1] for block in reductions]
    bound = all(schedule.get(loop).thread_binding is not None for loops in outermost for loop in loops)
    return bound and all(_is_plain(schedule.get(block)) for block in reductions)


def _is_plain(reduction: s_tir.SBlock) -> bool:
    """Return whether a reduction of one value combines its own element with another."""
    body = reduction.body
    if not isinstance(body, tirx.BufferStore):
        return True
    operands = [getattr(body.value, side, None) for side in "ab"]
    return any(isinstance(each, tvm.ir.TensorLoad) and each.source.same_as(body.buffer) for each in operands)


def _is_injective(function: tirx.PrimFunc) -> bool:
    """Return whether the function has no reduction; DLight's rules find this out only after inlining all blocks."""
    variables = [block.iter_vars for block in list_blocks(function) if block.name_hint != "root"]
    return all(each and all(var.iter_type == tirx.IterVar.DataPar for var in each) for each in variables)
