from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import tvm
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.nvrtc import find_nvrtc
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.cubin import find_headers, find_source
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.codegen.generators import launch_dependent
from tvmbuild.compiler.codegen.nvrtc import compile_by_nvrtc
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower

SaveModel = Callable[..., Path]
KERNEL = re.compile(r"__global__ void __launch_bounds__\(\d+\) \w+\(([^()]*)\) \{\n(.*?)\n\}", re.DOTALL)
GLOBAL = re.compile(r"\b(ld|st|red|atom|cp\.async)\.[\w.]*global")


def card(arch: str) -> tvm.target.Target:
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
    return tvm_target("cuda", FrozenMap({"arch": arch, **limits}), FrozenMap({"mtriple": "x86_64-linux-gnu"}))


def write_network(model: Path, arch: str) -> str:
    target = card(arch)
    applied = apply_records(lower(import_onnx(model), target), target, ms.database.MemoryDatabase())
    source = find_source(build_executable(applied.mod, target).mod)
    assert source is not None
    return source


@pytest.mark.compiler
def test_each_kernel_waits_before_it_does_anything(save_convnet: SaveModel) -> None:
    kernels = KERNEL.findall(write_network(save_convnet(), "sm_90"))
    assert len(kernels) > 1
    for parameters, body in kernels:
        pointers = [each.split()[-1] for each in parameters.split(",")]
        assert body.strip().startswith(f"tvmbuild_wait({', '.join(pointers)});")


@pytest.mark.compiler
def test_nothing_is_read_before_the_wait(save_convnet: SaveModel) -> None:
    source = write_network(save_convnet(), "sm_90")
    compiler = find_nvrtc(12)
    assert compiler is not None
    ptx = compile_by_nvrtc(source, "compute_90", compiler, find_headers(compiler)).decode()
    entries = ptx.split(".visible .entry")[1:]
    assert len(entries) == len(KERNEL.findall(source))
    for entry in entries:
        before, _, after = entry.partition("griddepcontrol.wait")
        assert not GLOBAL.search(before)
        assert GLOBAL.search(after)
        # the assembler may load constants of the kernel before the wait
        assert "ld.global.nc" not in after


@pytest.mark.compiler
def test_an_older_card_does_not_wait(save_convnet: SaveModel) -> None:
    assert "tvmbuild_wait" not in write_network(save_convnet(), "sm_86")


def test_the_size_of_shared_memory_stays_the_last_tag() -> None:
    tags = ["blockIdx.x", "threadIdx.x", "tirx.use_dyn_shared_memory"]
    kernel = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(0)).with_attr("tirx.kernel_launch_params", tags)
    made = launch_dependent(tvm.IRModule({"kernel": kernel}))["kernel"]
    wanted = ["blockIdx.x", "threadIdx.x", "tirx.use_programtic_dependent_launch", "tirx.use_dyn_shared_memory"]
    assert [str(tag) for tag in made.attrs["tirx.kernel_launch_params"]] == wanted
