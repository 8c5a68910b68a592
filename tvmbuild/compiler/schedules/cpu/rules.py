"""Schedules of CPU functions without a record, by rules: they need no search, and are the same in every process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir.dlight.analysis import normalize_prim_func

from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import has_parallel_loop, is_scheduled, mark_plain_loops, mark_scheduled
from tvmbuild.compiler.machine.machine import Machine, describe_machine
from tvmbuild.compiler.schedules.attempt import ScheduleRefused, tracing_block, try_in_place, try_rule
from tvmbuild.compiler.schedules.cpu.blocked import schedule_blocked
from tvmbuild.compiler.schedules.cpu.depthwise_dot import schedule_windows
from tvmbuild.compiler.schedules.cpu.dot import schedule_dot
from tvmbuild.compiler.schedules.cpu.injective import inline_blocks, schedule_injective
from tvmbuild.compiler.schedules.cpu.integers import schedule_integers
from tvmbuild.compiler.schedules.cpu.rows.rule import schedule_rows
from tvmbuild.compiler.schedules.cpu.tile import schedule_tiled
from tvmbuild.compiler.schedules.empty_loops import drop_empty_loops, has_empty_loops
from tvmbuild.compiler.schedules.nest import Variant, require_nest, run_parallel


def schedule_uncovered(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Schedule every function that no record has scheduled; a function that no rule can handle stays as it is."""
    machine = describe_machine(target)
    return map_prim_funcs(
        mod, lambda function, _: None if is_scheduled(function) else schedule_function(function, machine)
    )


def schedule_function(function: tirx.PrimFunc, machine: Machine) -> tirx.PrimFunc:
    """Apply to each block the first rule that can handle it.

    A function with a reduction that no rule handles well is marked (`mark_plain_loops`).
    """
    function = drop_empty_loops(function)
    given = _take_as_given(function)
    if given is not None:
        return mark_scheduled(given.mod["main"])
    applied = _apply_rules(function, machine, Variant())
    scheduled = function if applied is None else mark_scheduled(applied[0].mod["main"])
    return mark_plain_loops(scheduled) if _leaves_plain_loops(applied) else scheduled


def list_schedules(mod: tvm.ir.IRModule, target: tvm.target.Target, limit: int) -> list[s_tir.Schedule]:
    """Return at most ``limit`` different schedules of a workload worth measuring; the first is that of the rules."""
    given = _take_as_given(mod["main"])
    if given is not None:
        return [given]
    machine, found = describe_machine(target), dict[int, s_tir.Schedule]()
    ways: tuple[dict[str, bool], ...] = ({}, {"flip_padding": True}, {"swap_outer_loops": True}, {"blocked": True})
    variants = (Variant(rank, **way) for rank in range(MAX_RANKS) for way in ways)
    for variant in variants:
        sch = _schedule(mod["main"], machine, variant)
        if sch is not None:
            found.setdefault(tvm_ffi.structural_hash(sch.mod, map_free_vars=True), sch)
        if sch is None or len(found) == limit:
            break
    return list(found.values())


def _take_as_given(function: tirx.PrimFunc) -> s_tir.Schedule | None:
    """Return the schedule of a function that was written with its final loops, or None for other functions."""
    return try_rule(_annotate, function) if has_parallel_loop(function) else None


def _annotate(function: tirx.PrimFunc) -> s_tir.Schedule:
    sch = s_tir.Schedule(function, error_render_level="none")
    sch.annotate(sch.get_sblock("root"), "loops", "given")  # a record needs a trace that is not empty
    return sch


def sums_without_tiles(function: tirx.PrimFunc, machine: Machine) -> bool:
    """Return whether scheduling the function by rule would leave a reduction as a plain loop."""
    function = drop_empty_loops(function)
    if is_scheduled(function) or _take_as_given(function) is not None:
        return False
    return _leaves_plain_loops(_apply_rules(function, machine, Variant()))


def _leaves_plain_loops(applied: tuple[s_tir.Schedule, list[Rule | None]] | None) -> bool:
    return applied is None or any(rule in {None, _schedule_outer_loops} for rule in applied[1])


def _schedule(function: tirx.PrimFunc, machine: Machine, variant: Variant) -> s_tir.Schedule | None:
    applied = _apply_rules(function, machine, variant)
    return None if applied is None else applied[0]


def _apply_rules(
    function: tirx.PrimFunc, machine: Machine, variant: Variant
) -> tuple[s_tir.Schedule, list[Rule | None]] | None:
    """Return the schedule and the rule of each reduction, or None if no rule can handle the function's form."""
    if has_empty_loops(function):
        return None
    sch = _inline(s_tir.Schedule(function, error_render_level="none"))
    rows = sch.copy()
    if try_in_place(schedule_rows, rows, machine):
        return rows, []
    try:
        infos = normalize_prim_func(sch)
    except s_tir.ScheduleError:  # it has no loop nests
        return None
    if infos is None:
        return None
    of_sums: list[Rule | None] = []
    # Reductions first: they take the blocks before and after them into their loops.
    for info in sorted(infos, key=lambda info: not info.is_reduction()):
        name = str(info.name)
        if not _is_placed(sch, name):
            sch, rule = _schedule_block(sch, name, machine, variant)
            of_sums += [rule] if info.is_reduction() else []
    return sch, of_sums


def _schedule_block(
    sch: s_tir.Schedule, name: str, machine: Machine, variant: Variant
) -> tuple[s_tir.Schedule, Rule | None]:
    with tracing_block(name):
        for rule in _list_rules(variant):
            attempt = sch.copy()  # a rule that refuses may have changed it partly
            if try_in_place(rule, attempt, attempt.get_sblock(name), machine):
                return attempt, rule
    return sch, None


def _inline(sch: s_tir.Schedule) -> s_tir.Schedule:
    attempt = sch.copy()
    return attempt if try_in_place(inline_blocks, attempt) else sch


def _is_placed(sch: s_tir.Schedule, name: str) -> bool:
    """Return whether a rule has moved the block into the loops of another block."""
    loops = sch.get_loops(sch.get_sblock(name))
    return bool(loops) and len(sch.get_child_blocks(loops[0])) > 1


def _schedule_outer_loops(sch: s_tir.Schedule, block: Any, machine: Machine) -> None:
    """Divide the output of a reduction among the threads, and leave its plain loops to LLVM."""
    nest = require_nest(sch, block)
    if not nest.spatial:
        raise ScheduleRefused("it has one output alone")
    outer = [axis.loop for axis in nest.spatial]
    sch.reorder(*outer, *(axis.loop for axis in nest.reduced))
    run_parallel(sch, outer, nest.work, machine)


Rule = Callable[[s_tir.Schedule, Any, Machine], None]
MAX_RANKS = 8


def _list_rules(variant: Variant) -> tuple[Rule, ...]:
    """Return the rules in order: the first that can handle a block schedules it."""
    integers = partial(schedule_windows, rank=variant.rank), partial(schedule_integers, rank=variant.rank)
    tiled = partial(schedule_blocked, variant=variant), partial(schedule_tiled, variant=variant)
    return schedule_injective, *integers, *tiled, schedule_dot, _schedule_outer_loops
