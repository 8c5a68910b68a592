"""The step from a scheduled module to an executable of TVM's virtual machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import tvm
from tvm import relax, tirx
from tvm.relax.vm_build import _filter_tir, _vmcodegen, _vmlink

from tvmbuild.compiler.codegen.dedupe_allocations import dedupe_allocations
from tvmbuild.compiler.codegen.generators import pass_config, use_generators
from tvmbuild.compiler.codegen.group_independent_kernels import group_independent_kernels
from tvmbuild.compiler.codegen.kernel_names import shorten_names
from tvmbuild.compiler.codegen.memory_plan import MemoryPlan, plan_memory
from tvmbuild.compiler.codegen.plan_kernel_arrays import plan_kernel_arrays
from tvmbuild.compiler.codegen.scratch import WatchAllocations
from tvmbuild.compiler.codegen.stack_buffers import use_stack_buffers
from tvmbuild.compiler.codegen.workspace import find_workspace
from tvmbuild.compiler.culprit import name_culprit
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.machine.target import GPU_KINDS, is_gpu
from tvmbuild.compiler.pass_manager import Lowering, Phase, as_tvms, from_tvm, of_module, on_cpu
from tvmbuild.errors import TvmbuildError

PROFILED = "main_bytecode"
MAX_COMPILED = 4000
"""The largest number of bindings with which ``main`` and the functions beside it are compiled to machine code; if they
are longer, they stay bytecode."""
_CONFIG = {"relax.backend.use_cuda_graph": True}
"""The options of TVM's passes for every target; RewriteCUDAGraph does nothing without this one."""


def check_lowered(mod: tvm.ir.IRModule) -> None:
    """Raise TvmbuildError if the module has operators that TVM can import but not lower; the error names them."""
    left = sorted({call.op.name for prefix in ("relax.nn.", "relax.image.") for call in operator_calls(mod, prefix)})
    if left:
        raise TvmbuildError(
            f"TVM has no code for {', '.join(left)} with these attributes", "rewrite or replace it in the model"
        )


@dataclass(frozen=True)
class Executable:
    """A VM executable that is not linked yet."""

    executable: relax.VMExecutable
    memory: MemoryPlan


def build_executable(mod: tvm.ir.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
    """Compile the module to a VM executable that is not linked yet.

    Raises TvmbuildError if TVM can import but not lower an operator; the error names the operator.
    """
    return compile_module(mod, target).executable


def compile_module(mod: tvm.ir.IRModule, target: tvm.target.Target) -> Executable:
    """Compile the module as ``build_executable`` does, and return also what a call allocates."""
    check_lowered(mod)
    alone = partial(tvm.compile, target=target)
    with _watching(target) as watch, name_culprit(mod, alone):
        passes = as_tvms(VIRTUAL_MACHINE, Lowering(target))
        if is_gpu(target) and any(isinstance(function, tirx.PrimFunc) for function in mod.functions.values()):
            lowered = passes(shorten_names(mod))
            built = relax.build(lowered, target=target, relax_pipeline=None)
        else:
            lowered = passes(mod)
            # Without any kernel, TVM would write a GPU's library in C, and the user may have no C compiler.
            built = _build_twice(lowered, target.host if is_gpu(target) else target)
        return Executable(built, plan_memory(lowered, watch.found))


def plan_workspace(mod: tvm.ir.IRModule, target: tvm.target.Target) -> int:
    """Return the bytes that a call of the module will allocate. No code is generated, and schedules do not matter."""
    context = tvm.transform.PassContext(opt_level=3, config={**_CONFIG, **pass_config(target)})
    with target, context:
        return find_workspace(as_tvms(VIRTUAL_MACHINE, Lowering(target))(mod))


def plan_scheduled(mod: tvm.ir.IRModule, target: tvm.target.Target) -> MemoryPlan:
    """Return the memory that calls of a scheduled module will take on a CPU. No machine code is generated."""
    with _watching(target) as watch:
        lowered = as_tvms(VIRTUAL_MACHINE, Lowering(target))(mod)
        lower_kernels, finish, _ = tirx.get_tir_pipeline("default")
        finish()(lower_kernels(tirx.transform.BindTarget(target.with_host(target))(_filter_tir(lowered))))
        return plan_memory(lowered, watch.found)


@contextmanager
def _watching(target: tvm.target.Target) -> Iterator[WatchAllocations]:
    """Compile for the target in the context; yield the watcher of the kernels' allocations."""
    watch = WatchAllocations()
    config = {**_CONFIG, **pass_config(target)}
    with target, use_generators(target), tvm.transform.PassContext(opt_level=3, instruments=[watch], config=config):
        yield watch


def name_profiled(kind: str) -> str:
    """Return the name of the function that a profiler calls instead of ``main`` in packages for this kind of target."""
    return "main" if kind in GPU_KINDS else PROFILED


def _build_twice(mod: tvm.ir.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
    """Build ``main`` as machine code and, under the name ``PROFILED``, as bytecode, whose calls a profiler can see.

    The steps are the same as in relax.build, which builds only one form. A ``main`` of very many calls, for example
    from an unrolled loop, stays bytecode: LLVM would take minutes to compile it and save only half a microsecond per
    call.
    """
    builder = relax.ExecBuilder()
    functions = {variable: each for variable, each in mod.functions.items() if not isinstance(each, relax.Function)}
    profiled = {tvm.ir.GlobalVar(PROFILED): mod["main"].with_attr("global_symbol", PROFILED)}
    _vmcodegen(builder, tvm.ir.IRModule(functions | profiled, attrs=mod.attrs), "bytecode")
    form = "compiled" if _count_bindings(mod) <= MAX_COMPILED else "bytecode"
    return _vmlink(builder, target, _filter_tir(_vmcodegen(builder, mod, form)))


def _count_bindings(mod: tvm.ir.IRModule) -> int:
    """Return the number of bindings of ``main`` and of the functions beside it."""
    functions = [each for each in mod.functions.values() if isinstance(each, relax.Function)]
    return sum(len(block.bindings) for each in functions for block in each.body.blocks)


def _on_cuda(lowering: Lowering) -> bool:
    return str(lowering.target.kind.name) == "cuda"


def _not_on_cuda(lowering: Lowering) -> bool:
    return not _on_cuda(lowering)


def _on_vulkan(lowering: Lowering) -> bool:
    return str(lowering.target.kind.name) == "vulkan"


VIRTUAL_MACHINE = Phase(
    "virtual machine",
    (
        of_module("UseStackBuffers", use_stack_buffers, on_cpu),
        from_tvm(relax.transform.ToNonDataflow),
        from_tvm(relax.transform.RemovePurityChecking),
        from_tvm(relax.transform.CallTIRRewrite),
        of_module(
            "PlanKernelArrays",
            plan_kernel_arrays,
            on_cpu,
            before={"StaticPlanBlockMemory": "it plans them"},
            after={"CallTIRRewrite": "calls have explicit tensors"},
        ),
        of_module(
            "GroupIndependentKernels",
            group_independent_kernels,
            _on_vulkan,
            before={"StaticPlanBlockMemory": "it changes lifetimes"},
        ),
        from_tvm(relax.transform.StaticPlanBlockMemory),
        # One CUDA graph holds all launches except the first and the last.
        from_tvm(relax.transform.RewriteCUDAGraph, _on_cuda),
        from_tvm(relax.transform.LowerAllocTensor),
        of_module(
            "DedupeAllocations", dedupe_allocations, _not_on_cuda, after={"LowerAllocTensor": "it looks for tensors"}
        ),
        from_tvm(relax.transform.KillAfterLastUse),
        from_tvm(relax.transform.LowerRuntimeBuiltin),
        from_tvm(relax.transform.ComputePrimValue),
        from_tvm(relax.transform.VMShapeLower),
        from_tvm(relax.transform.AttachGlobalSymbol),
    ),
)
"""The passes that lower Relax calls of kernels to functions of TVM's virtual machine."""
