"""The step that applies records to a lowered module, schedules the rest by rule, and lists the Tasks with a record."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.ir.calls import called_functions, display_name
from tvmbuild.compiler.ir.prim_funcs import is_scheduled, list_blocks
from tvmbuild.compiler.pass_manager import Lowering, Phase, from_tvm, of_module, of_target, on_cpu, on_gpu, run_phase
from tvmbuild.compiler.passes.fold_constants import repack_weights
from tvmbuild.compiler.pipeline import Lowered
from tvmbuild.compiler.schedules.cpu.rules import schedule_uncovered
from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes
from tvmbuild.compiler.schedules.gpu.rules import schedule_rest
from tvmbuild.compiler.tasks import normalised, task_key

_REPACKS = "meta_schedule.layout_rewrite_preproc"


@dataclass(frozen=True)
class Coverage:
    """The Tasks with and without a record: key → name, in program order."""

    covered: FrozenMap[str, str]
    uncovered: FrozenMap[str, str]

    @property
    def tasks(self) -> int:
        """The number of distinct Tasks in the module."""
        return len(self.covered) + len(self.uncovered)


@dataclass(frozen=True)
class Applied:
    """A module whose Tasks were scheduled by records, with weights repacked for these schedules."""

    mod: tvm.ir.IRModule
    coverage: Coverage


def apply_records(lowered: Lowered, target: tvm.target.Target, database: ms.database.Database) -> Applied:
    """Schedule each Task by its best record in the database, and repack constant weights as the schedules need them.

    ``database`` is a MetaSchedule Database. A function without a record is scheduled by rule, and does not count as
    covered. On a GPU it could not run without a schedule.
    """
    lowering = Lowering(target)
    with target, database:
        recorded = run_phase(RECORDED, lowered.mod, lowering)
        coverage = _coverage(lowered.mod, recorded)
        scheduled = run_tir_passes(run_phase(SCHEDULED, recorded, lowering), target)
        return Applied(run_phase(REPACKED, scheduled, lowering), coverage)


def _split_repacking(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Move the repacking of weights into separate functions; functions that repack nothing stay as they are.

    TVM's pass fails on functions without a block ("There should be a compute block"): TopK, CumSum, Scatter.
    """
    aside = {
        variable: function
        for variable, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and not _repacks(function)
    }
    kept = {variable: each for variable, each in mod.functions.items() if variable not in aside}
    split = relax.transform.SplitLayoutRewritePreproc()(tvm.ir.IRModule(kept, attrs=mod.attrs))
    return tvm.ir.IRModule(dict(split.functions.items()) | aside, attrs=mod.attrs)


def _repacks(function: tirx.PrimFunc) -> bool:
    return any(_REPACKS in block.annotations for block in list_blocks(function))


RECORDED = Phase("records applied", (from_tvm(relax.transform.MetaScheduleApplyDatabase),))
SCHEDULED = Phase(
    "rules applied",
    (
        of_target("ScheduleByRule", schedule_rest, on_gpu),
        of_target("ScheduleByRuleOnCpu", schedule_uncovered, on_cpu),
        of_module("SplitLayoutRewrite", _split_repacking, on_cpu),
    ),
)
REPACKED = Phase(
    "weights repacked",
    (
        of_module("RepackWeights", repack_weights, on_cpu),
        from_tvm(relax.transform.FoldConstant),
        # Repacked weights come back as tuples of constants; make them arguments again.
        from_tvm(relax.transform.CanonicalizeBindings),
        from_tvm(relax.transform.DeadCodeElimination),
    ),
)


def _coverage(before: tvm.ir.IRModule, after: tvm.ir.IRModule) -> Coverage:
    """Collect the Tasks with and without a record; ``before`` and ``after`` have the same function names."""
    covered: dict[str, str] = {}
    uncovered: dict[str, str] = {}
    for variable in called_functions(before):
        # A function that was scheduled before (TVM's own code of some operators on GPUs) has no record.
        recorded = is_scheduled(after[variable.name_hint]) and not is_scheduled(before[variable])
        chosen = covered if recorded else uncovered
        chosen.setdefault(task_key(normalised(before[variable])), display_name(variable.name_hint))
    return Coverage(FrozenMap(covered), FrozenMap(uncovered))
