"""Kernels of only fused multiply-adds, compiled for this CPU, which measure its peak compute rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import tvm
from tvm import s_tir, te
from tvm.target import codegen

LANES = (16, 8, 4)
"""The fp32 lanes of vectors in AVX-512, AVX2 and NEON. The fastest width depends on the CPU."""
CHAINS = 12
"""The number of independent accumulators: it hides a latency of 4 or 5 cycles on two units, and fits 16 registers."""
STEPS = 200_000


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel. A call keeps every thread busy for about a millisecond."""

    call: Callable[[], object]
    flops: int
    """The number of floating-point operations of one call."""


def build_kernels(threads: int) -> tuple[Kernel, ...]:
    """Compile a kernel for each vector width in LANES. The environment variable TVM_NUM_THREADS must be ``threads``."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": str(codegen.llvm_get_system_cpu()), "num-cores": threads})
    kernels = []
    for lanes in LANES:
        function = tvm.compile(schedule_chains(threads, lanes), target=target)["main"]
        addends = tvm.runtime.tensor(np.linspace(0.5, 1.0, CHAINS * lanes, dtype=np.float32))
        sums = tvm.runtime.tensor(np.zeros((threads, CHAINS * lanes), np.float32))
        flops = 2 * STEPS * CHAINS * lanes * threads
        kernels.append(Kernel(partial(function, addends, sums), flops))
    return tuple(kernels)


def schedule_chains(threads: int, lanes: int) -> tvm.ir.IRModule:
    """Return the scheduled kernel that repeats ``x = x / 2 + a`` STEPS times on CHAINS vectors in each thread.

    Each vector has ``lanes`` elements and stays in one register.
    """
    chain = te.comm_reducer(lambda x, a: x * te.const(0.5, "float32") + a, lambda dtype: te.const(0, dtype))
    addends = te.placeholder((CHAINS * lanes,), "float32", "addends")
    step = te.reduce_axis((0, STEPS), "step")
    sums = te.compute((threads, CHAINS * lanes), lambda _, i: chain(addends[i], axis=step), "sums")
    schedule = s_tir.Schedule(te.create_prim_func([addends, sums]))
    block = schedule.get_sblock("sums")
    registers = schedule.cache_write(block, 0, "local")
    thread, vectors, repeat = schedule.get_loops(block)
    chains, lane = schedule.split(vectors, [CHAINS, lanes])
    schedule.reorder(thread, repeat, chains, lane)
    schedule.reverse_compute_at(registers, thread)
    schedule.parallel(thread)
    schedule.split(schedule.get_loops(registers)[-1], [CHAINS, lanes])
    # All indices of the accumulators become constants: LLVM keeps them in registers only then.
    for each in (block, registers):
        chains, lane = schedule.get_loops(each)[-2:]
        schedule.unroll(chains)
        schedule.vectorize(lane)
    schedule.decompose_reduction(block, repeat)
    return schedule.mod
