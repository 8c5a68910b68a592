"""The kernels that measure a GPU's peak rates: one of only multiply-adds, and one that copies memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import s_tir, te

from tvmbuild.compiler.codegen.generators import use_generators

BLOCKS, THREADS = 2048, 128
"""The number of blocks, which keep any device busy, and of threads per block, which any device can run."""
CHAINS, STEPS = 8, 2048
"""The number of independent sums per thread, which hide the latency of a multiply-add, and the terms of each sum."""
COPIED_BYTES = 1 << 27
"""The size of the copied buffer: 128 MiB, which every Vulkan device can allocate and which exceeds the caches."""
LANES = (1, 4)
"""The numbers of elements that a thread may copy at once. Both are measured: the faster one depends on the device."""


@dataclass(frozen=True)
class GpuKernel:
    """A built kernel with its amount of work."""

    function: Any
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the function's float32 arguments."""
    amount: int
    """The work of one call: floating-point operations (a multiply-add has two), or bytes read and written."""

    def make_arguments(self, device: Any) -> list[Any]:
        """Return new arguments for the function on the device, filled with 0.5."""
        return [tvm.runtime.tensor(np.full(shape, 0.5, np.float32), device) for shape in self.shapes]


def build_multiply_adds(target: tvm.target.Target) -> GpuKernel:
    """Return the kernel that repeats ``x = x / 2 + a`` in registers."""
    chain = te.comm_reducer(lambda x, a: x * te.const(0.5, "float32") + a, lambda dtype: te.const(0, dtype))
    shape = (BLOCKS * THREADS, CHAINS)
    addends = te.placeholder((CHAINS,), "float32", "addends")
    step = te.reduce_axis((0, STEPS), "step")
    sums = te.compute(shape, lambda _, i: chain(addends[i], axis=step), "sums")
    schedule = s_tir.Schedule(te.create_prim_func([addends, sums]))
    block = schedule.get_sblock("sums")
    registers = schedule.cache_write(block, 0, "local")
    items, chains, repeat = schedule.get_loops(block)
    outer, inner = schedule.split(items, [BLOCKS, THREADS])
    schedule.reorder(outer, inner, repeat, chains)
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    schedule.reverse_compute_at(registers, inner)
    operands = schedule.cache_read(block, 0, "local")
    schedule.compute_at(operands, inner)
    for each in (block, registers, operands):
        schedule.unroll(schedule.get_loops(each)[-1])
    schedule.decompose_reduction(block, repeat)
    schedule.unroll(schedule.get_loops(schedule.get_sblock("sums_init"))[-1])
    return GpuKernel(_build(schedule, target), ((CHAINS,), shape), 2 * STEPS * BLOCKS * THREADS * CHAINS)


def build_copy(target: tvm.target.Target, at_once: int) -> GpuKernel:
    """Return the kernel that copies COPIED_BYTES. Each thread copies ``at_once`` float32 elements with one access."""
    size = COPIED_BYTES // 4
    source = te.placeholder((size,), "float32", "source")
    schedule = s_tir.Schedule(te.create_prim_func([source, te.compute((size,), lambda i: source[i], "copy")]))
    (items,) = schedule.get_loops(schedule.get_sblock("copy"))
    outer, inner, lanes = schedule.split(items, [None, THREADS, at_once])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    schedule.vectorize(lanes)
    return GpuKernel(_build(schedule, target), ((size,), (size,)), 2 * COPIED_BYTES)


def _build(schedule: s_tir.Schedule, target: tvm.target.Target) -> Any:
    with use_generators(target):
        return tvm.tirx.build(schedule.mod, target)["main"]
