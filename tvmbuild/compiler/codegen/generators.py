"""What TVM's code generation needs of us, by the target's kind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.backend.cuda.op import cuda_func_call

from tvmbuild.compiler.codegen.cubin import compile_with_tvm
from tvmbuild.compiler.codegen.prepare import prepare_compiler
from tvmbuild.compiler.codegen.vulkan.generator import register_generator
from tvmbuild.compiler.machine.target import copies_asynchronously, launches_dependents


def pass_config(target: tvm.target.Target) -> dict[str, Any]:
    """Return the configuration of TVM's passes that code for the target is made with, by whatever makes it."""
    return {"tirx.use_async_copy": True} if copies_asynchronously(target) else {}


@contextlib.contextmanager
def use_generators(target: tvm.target.Target) -> Iterator[None]:
    """Within the context TVM generates code for the target as we do; whatever makes code is inside."""
    prepare_compiler()
    if target.kind.name == "vulkan":
        register_generator()
    if target.kind.name == "cuda":
        use_dependent_launch()
    with compile_with_tvm(target):
        yield


# Kernels that are launched while the one before them ends (programmatic dependent launch, from `sm_90` on).
# A kernel's blocks are placed as those of the kernel before it end, and wait there until it has ended and written all:
# launching is no longer between the two. Each waits before it reads or writes anything, so that it sees what every
# kernel before it wrote. Nothing says earlier that the next may be launched: its waiting blocks would take the place
# of working ones (mobilenet_v2 on an H200: 0.95 of the time without, and 1.36 where each said so at its beginning).
# CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".

_BUILD = "target.build.cuda"
_TAGS = "tirx.kernel_launch_params"
_DEPENDENT, _LAST = "tirx.use_programtic_dependent_launch", "tirx.use_dyn_shared_memory"
"""TVM's runtime launches a kernel so where its tags have the first; the other must stay the last of them."""
# A pointer that assembly has seen is one whose numbers it may have changed. Else they would be loaded as constants of
# the kernel (`ld.global.nc`), which compilers move before the wait: wrong numbers, seen on an H200.
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
def use_dependent_launch() -> None:
    """Let TVM generate such kernels, for the cards that have it, from now on in this process."""
    build = tvm_ffi.get_global_func(_BUILD)

    def build_dependent(module: tvm.ir.IRModule, target: tvm.target.Target) -> Any:
        return build(launch_dependent(module) if launches_dependents(target) else module, target)

    tvm_ffi.register_global_func(_BUILD, build_dependent, override=True)


def launch_dependent(module: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return the module of kernels, as code generation gets them, so that each is launched early and waits."""
    return tvm.ir.IRModule({name: _make_wait(each) for name, each in module.functions.items()}, attrs=module.attrs)


def _make_wait(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    pointers = [each for each in kernel.params if isinstance(each.ty, tvm.ir.PointerType)]
    wait = tirx.Evaluate(cuda_func_call("tvmbuild_wait", *pointers, source_code=_WAIT))
    tags = sorted([*(str(tag) for tag in kernel.attrs[_TAGS]), _DEPENDENT], key=lambda tag: tag == _LAST)
    return kernel.with_body(tirx.SeqStmt([wait, kernel.body])).with_attr(_TAGS, tags)
