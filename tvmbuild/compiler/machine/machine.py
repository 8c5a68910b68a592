"""The CPU that schedules and kernels are made for: vectors, registers, threads, and the sizes that fit them."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm.target import codegen

from tvmbuild.compiler.machine.dot_instructions import find_instructions
from tvmbuild.compiler.machine.limits import USUAL_CPU, CpuLimits

PARALLEL_WORK = 1 << 15
"""The number of scalar operations below which a second thread costs more than it saves: its start takes 5 to 10 µs."""
HALVES = frozenset({"avx512fp16", "fullfp16"})
"""LLVM's names of the features that compute with vectors of float16."""
CHUNKS_PER_THREAD = 8
"""The number of chunks of a parallel loop for each thread.

Threads get equal numbers of chunks; with this many chunks, one more for some threads does not matter.
"""


@dataclass(frozen=True)
class Machine:
    """The properties of a CPU that determine tile sizes."""

    vector_bytes: int
    registers: int
    """The number of vector registers."""
    threads: int
    limits: CpuLimits = USUAL_CPU
    dots: frozenset[str] = frozenset()
    """The names of the CPU's dot instructions."""
    halves: bool = False
    """True if the CPU computes with vectors of float16."""

    def lanes(self, bits: int) -> int:
        """Return the number of elements of this many bits that a vector register holds."""
        return max(1, self.vector_bytes * 8 // max(bits, 8))


def describe_machine(target: tvm.target.Target) -> Machine:
    """Return the machine of a CPU target, by its attributes, else by the features of all CPUs of its architecture."""
    has = {str(name) for name in codegen.llvm_get_cpu_features(target)}
    triple = str(target.attrs.get("mtriple", "") or codegen.llvm_get_system_triple())
    threads = int(target.attrs.get("num-cores", 0)) or 4
    dots = frozenset(each.name for each in find_instructions(target))
    halves = bool(has & HALVES)
    if triple.startswith(("x86_64", "i386", "i686")):
        if "avx512f" in has:
            return Machine(64, 32, threads, dots=dots, halves=halves)
        return Machine(32 if "avx2" in has else 16, 16, threads, dots=dots)
    return Machine(16, 16 if triple.startswith("arm") else 32, threads, dots=dots, halves=halves)


def divisors(number: int, limit: int) -> list[int]:
    """Return the divisors of the number up to the limit, in ascending order."""
    return [each for each in range(1, min(number, limit) + 1) if number % each == 0]


def power_of_two_divisor(number: int, limit: int) -> int:
    """Return the largest power of two that divides the number and is at most the limit."""
    return min(number & -number, 1 << (limit.bit_length() - 1))
