"""Kernels for lavapipe, written by TVM's builder and run on arrays."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as script
from vulkan_devices import HOST

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.codegen.generators import use_generators
from tvmbuild.compiler.codegen.vulkan.kernel import Kernel, generate_kernel
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.package.runtime.host import find_device
from tvmbuild.targets.vulkan_families import FAMILIES

_build = import_module("tvm.tirx.build")  # the package has a function of that name
_SPLIT = tvm.transform.Sequential(
    [
        s_tir.transform.UnifyThreadBinding(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.VectorizeLoop(),
        tirx.transform.AnnotateEntryFunc(),
        tirx.transform.SplitHostDevice(),
        tirx.transform.MakePackedAPI(),
    ]
)
Body = Callable[..., None]
"""A function that takes the buffers and the threads' numbers, and emits statements."""


def lavapipe(**changes: AttributeValue) -> tvm.target.Target:
    """Return the target, with the given attributes changed."""
    return tvm_target("vulkan", FrozenMap(sorted({**FAMILIES["lavapipe"], **changes}.items())), HOST)


def write_kernel(
    buffers: Sequence[tuple[tuple[int, ...], str]], threads: Sequence[tuple[str, Any]], body: Body, noalias: bool = True
) -> tvm.IRModule:
    """Return a module whose `main` has these buffers and threads, by tag and number."""
    with IRBuilder() as builder, script.prim_func():
        script.func_name("main")
        script.func_attr({"tirx.noalias": noalias})
        arguments = [script.arg(f"a{i}", script.buffer(shape, dtype)) for i, (shape, dtype) in enumerate(buffers)]
        with ExitStack() as stack:
            numbers = [stack.enter_context(script.thread_binding(0, extent, tag)) for tag, extent in threads]
            body(*arguments, *numbers)
    return tvm.IRModule({"main": builder.get()})


def build(mod: tvm.IRModule, target: tvm.target.Target | None = None) -> Any:
    """Return the built `main`."""
    target = target or lavapipe()
    with use_generators(target):
        return tvm.tirx.build(mod, target)["main"]


def build_as_written(mod: tvm.IRModule) -> Any:
    """Return the built `main` whose expressions no pass of TVM has simplified."""
    target = lavapipe()
    bound = tirx.transform.BindTarget(target)(mod)
    host, devices = _build.split_host_device_mods(_SPLIT(bound))
    lower = tirx.transform.LowerIntrin()
    with use_generators(target):
        kernels = {target: lower(device) for target, device in devices.items()}
        return _build.tir_to_runtime(lower(tirx.transform.LowerTVMBuiltin()(host)), kernels, target.host)["main"]


def run(function: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return the arrays after the call."""
    device = find_device("vulkan")
    tensors = [tvm.runtime.tensor(np.asarray(each, order="C"), device) for each in arrays]
    function(*tensors)
    return [each.numpy() for each in tensors]


def generate(mod: tvm.IRModule, target: tvm.target.Target | None = None) -> list[Kernel]:
    """Return the kernels that are generated from a scheduled module."""
    target = target or lavapipe()
    with target:
        passes, _, finish = tirx.get_default_tir_pipeline(target)
        _, devices = _build.split_host_device_mods(passes(tirx.transform.BindTarget(target)(mod)))
        functions = [each for device in devices.values() for each in finish()(device).functions.values()]
    return [generate_kernel(each, target) for each in functions]


def explain_invalid(kernel: Kernel, folder: Path) -> str:
    """Return spirv-val's errors about the kernel; empty if it is valid."""
    path = folder / "kernel.spv"
    path.write_bytes(struct.pack(f"<{len(kernel.words)}I", *kernel.words))
    command = ["spirv-val", "--target-env", "vulkan1.1", str(path)]
    return subprocess.run(command, check=False, capture_output=True, text=True).stderr
