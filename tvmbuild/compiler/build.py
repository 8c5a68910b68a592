"""Records applied to a lowered module, its coverage, and the module built."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.relax.vm_build import _filter_tir, _vmcodegen, _vmlink
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.calls import called_functions, display_name, operator_calls
from tvmbuild.compiler.cuda import compile_with_tvm
from tvmbuild.compiler.culprit import name_culprit
from tvmbuild.compiler.fallback import is_scheduled, schedule_uncovered
from tvmbuild.compiler.gpu_schedules import schedule_rest
from tvmbuild.compiler.pipeline import Lowered
from tvmbuild.compiler.target import GPU_KINDS, is_gpu
from tvmbuild.compiler.tasks import normalised, task_key
from tvmbuild.errors import TvmbuildError
from tvmbuild.frozen_map import FrozenMap

_REPACKS = "meta_schedule.layout_rewrite_preproc"
PROFILED = "main_bytecode"
MOST_COMPILED = 4000
"""Bindings of a ``main`` that is made machine code."""
_CONFIG = {"relax.backend.use_cuda_graph": True}
"""Without it RewriteCUDAGraph does nothing."""


@dataclass(frozen=True)
class Coverage:
    """Which Tasks got a record: key → name, in program order."""

    covered: FrozenMap[str, str]
    uncovered: FrozenMap[str, str]

    @property
    def tasks(self) -> int:
        """How many distinct Tasks the module has."""
        return len(self.covered) + len(self.uncovered)


@dataclass(frozen=True)
class Applied:
    """A module with its records applied and its weights repacked for them."""

    mod: tvm.ir.IRModule
    coverage: Coverage


def apply_records(lowered: Lowered, target: tvm.target.Target, database: ms.database.Database) -> Applied:
    """Schedule each Task by the database's best record; repack constant weights as the schedules want them.

    ``database`` is a MetaSchedule Database. GPU functions without a record get one by rule, without
    which they could not run; CPU functions without one a schedule by rule. Neither counts as covered.
    """
    with target, database:
        mod = relax.transform.MetaScheduleApplyDatabase()(lowered.mod)
        coverage = _coverage(lowered.mod, mod)
        mod = schedule_rest(mod, target) if is_gpu(target) else _split_repacking(schedule_uncovered(mod, target))
        mod = relax.transform.FoldConstant()(mod)
        # Repacked weights come back as tuples of constants; make them arguments again.
        mod = relax.transform.CanonicalizeBindings()(mod)
        mod = relax.transform.DeadCodeElimination()(mod)
    return Applied(mod, coverage)


def _split_repacking(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Make functions of their own of what repacks weights; functions without such stay as they are.

    TVM's pass fails on those that have no block at all ("There should be a compute block"): TopK, CumSum, Scatter.
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
    found: list[s_tir.SBlock] = []

    def note(block: s_tir.SBlock) -> None:
        if _REPACKS in block.annotations:
            found.append(block)

    tvm_ffi.structural_walk(function.body, [(s_tir.SBlock, note)])
    return bool(found)


def check_lowered(mod: tvm.ir.IRModule) -> None:
    """Raise TvmbuildError naming the operators that TVM can import but not lower."""
    left = sorted({call.op.name for prefix in ("relax.nn.", "relax.image.") for call in operator_calls(mod, prefix)})
    if left:
        raise TvmbuildError(
            f"TVM has no code for {', '.join(left)} with these attributes", "rewrite or replace it in the model"
        )


def build_executable(mod: tvm.ir.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
    """Compile the module to a VM executable, not linked yet.

    An operator that TVM can import but not lower is a TvmbuildError that names it.
    """
    check_lowered(mod)
    alone = partial(tvm.compile, target=target)
    context = tvm.transform.PassContext(opt_level=3, config=_CONFIG)
    with target, compile_with_tvm(target), context, name_culprit(mod, alone):
        passes = tvm.transform.Sequential(_vm_passes(target))
        if not is_gpu(target):
            return _build_twice(passes(mod), target)
        if any(isinstance(function, tirx.PrimFunc) for function in mod.functions.values()):
            return relax.build(mod, target=target, relax_pipeline=passes)
        # Without a kernel TVM makes C of the library, for a compiler that nobody may have.
        return _build_twice(passes(mod), target.host)


def name_profiled(kind: str) -> str:
    """Return the function that a profiler of a package for that kind of target calls in ``main``'s stead."""
    return "main" if kind in GPU_KINDS else PROFILED


def _build_twice(mod: tvm.ir.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
    """Build ``main`` as machine code and, under the name ``PROFILED``, as bytecode, whose calls profiles can see.

    The steps are those of relax.build, which makes either. One of very many calls, a loop unrolled, stays bytecode:
    LLVM takes minutes for it, and half a microsecond a call matters little beside that.
    """
    builder = relax.ExecBuilder()
    functions = {variable: each for variable, each in mod.functions.items() if variable.name_hint != "main"}
    profiled = {tvm.ir.GlobalVar(PROFILED): mod["main"].with_attr("global_symbol", PROFILED)}
    _vmcodegen(builder, tvm.ir.IRModule(functions | profiled, attrs=mod.attrs), "bytecode")
    form = "compiled" if _count_bindings(mod["main"]) <= MOST_COMPILED else "bytecode"
    return _vmlink(builder, target, _filter_tir(_vmcodegen(builder, mod, form)))


def _count_bindings(function: relax.Function) -> int:
    return sum(len(block.bindings) for block in function.body.blocks)


def _vm_passes(target: tvm.target.Target) -> list[tvm.transform.Pass]:
    """Return the passes down to the virtual machine; on CUDA all launches but the first and the last are one graph."""
    graph = [relax.transform.RewriteCUDAGraph()] if target.kind.name == "cuda" else []
    return [
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
        *graph,
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]


def _coverage(before: tvm.ir.IRModule, after: tvm.ir.IRModule) -> Coverage:
    """Compare by name: applying records keeps every function's name."""
    covered: dict[str, str] = {}
    uncovered: dict[str, str] = {}
    for variable in called_functions(before):
        # What came scheduled (TVM's own code of some operators on GPUs) has no record of ours.
        recorded = is_scheduled(after[variable.name_hint]) and not is_scheduled(before[variable])
        chosen = covered if recorded else uncovered
        chosen.setdefault(task_key(normalised(before[variable])), display_name(variable.name_hint))
    return Coverage(FrozenMap(covered), FrozenMap(uncovered))
