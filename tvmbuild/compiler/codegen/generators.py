"""Hooks into TVM's code generation for each kind of target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.backend.cuda.op import cuda_func_call

from tvmbuild.compiler.codegen.bit_casts import use_bit_casts
from tvmbuild.compiler.codegen.cubin import compile_with_tvm
from tvmbuild.compiler.codegen.cuda_vectors import rewrite_vectors
from tvmbuild.compiler.codegen.prepare import prepare_compiler
from tvmbuild.compiler.codegen.vulkan.generator import register_generator
from tvmbuild.compiler.machine.target import copies_asynchronously, launches_dependents


def pass_config(target: tvm.target.Target) -> dict[str, Any]:
    """Return the options of TVM's passes for this target; every step that generates code must use them."""
    return {"tirx.use_async_copy": True} if copies_asynchronously(target) else {}


@contextlib.contextmanager
def use_generators(target: tvm.target.Target) -> Iterator[None]:
    """Make TVM generate code for the target with our generators; all code must be generated within this context."""
    prepare_compiler()
    if target.kind.name == "vulkan":
        register_generator()
    if target.kind.name == "cuda":
        use_bit_casts()
        rewrite_cuda_kernels()
    with compile_with_tvm(target):
        yield


# Programmatic dependent launch, from `sm_90` on: a kernel is launched while the kernel before it ends. The blocks of a
# kernel take the places of the earlier kernel's blocks as these end, and wait there until that kernel has ended and
# written everything, so that the launch costs no time between the two. Each block waits before it reads or writes
# anything, so that it sees all writes of every earlier kernel. No kernel allows the next launch before its end: waiting
# blocks would take the place of working ones (mobilenet_v2 on an H200: 0.95 of the time without dependent launch, and
# 1.36 if each kernel allows it at its beginning). CUDA C++ Programming Guide, "Programmatic Dependent Launch and
# Synchronization".

_BUILD = "target.build.cuda"
_TAGS = "tirx.kernel_launch_params"
_DEPENDENT, _LAST = "tirx.use_programtic_dependent_launch", "tirx.use_dyn_shared_memory"
"""Launch tags of a kernel: with ``_DEPENDENT``, TVM's runtime uses dependent launch; ``_LAST`` must be the last tag."""
# The assembly takes the pointers, so that the compiler must assume that the numbers behind them change. Otherwise it
# would load them as constants of the kernel (`ld.global.nc`), and compilers move these loads before the wait: an H200
# then gave wrong results.
_WAIT = """
template <typename T> __forceinline__ __device__ void tvmbuild_may_change(T* pointer) {
  asm volatile("" :: "l"(pointer) : "memory");
}
template <typename... T> __forceinline__ __device__ void tvmbuild_wait(T*... pointers) {
  (tvmbuild_may_change(pointers), ...);
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
"""


@cache
def rewrite_cuda_kernels() -> None:
    """Make TVM generate code of kernels that we have rewritten, for the rest of this process.

    They have dependent launch, if the target supports it.
    """
    build = tvm_ffi.get_global_func(_BUILD)

    def build_rewritten(module: tvm.ir.IRModule, target: tvm.target.Target) -> Any:
        kernels = {name: rewrite_vectors(each) for name, each in module.functions.items()}
        rewritten = tvm.ir.IRModule(kernels, attrs=module.attrs)
        return build(launch_dependent(rewritten) if launches_dependents(target) else rewritten, target)

    tvm_ffi.register_global_func(_BUILD, build_rewritten, override=True)


def launch_dependent(module: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return the module with kernels that are launched early (dependent launch) and wait at their beginning.

    ``module`` has the form that TVM passes to its CUDA code generator.
    """
    return tvm.ir.IRModule({name: _make_wait(each) for name, each in module.functions.items()}, attrs=module.attrs)


def _make_wait(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    pointers = [each for each in kernel.params if isinstance(each.ty, tvm.ir.PointerType)]
    wait = tirx.Evaluate(cuda_func_call("tvmbuild_wait", *pointers, source_code=_WAIT))
    tags = sorted([*(str(tag) for tag in kernel.attrs[_TAGS]), _DEPENDENT], key=lambda tag: tag == _LAST)
    return kernel.with_body(tirx.SeqStmt([wait, kernel.body])).with_attr(_TAGS, tags)
