"""The machine that schedules and kernels are made for: vectors, registers, threads, and the sizes that fit them."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm.target import codegen

from tvmbuild.compiler.machine.dot_instructions import find_instructions
from tvmbuild.compiler.machine.limits import USUAL_CPU, CpuLimits

PARALLEL_WORK = 1 << 15
"""Scalar operations under which a second thread costs more than it brings: starting threads takes 5 to 10 µs."""
HALVES = frozenset({"avx512fp16", "fullfp16"})
"""LLVM's names of the instructions that compute with vectors of float16."""
CHUNKS_PER_THREAD = 8
"""Chunks are handed out in equal numbers: so many that one more for some thread does not matter."""


@dataclass(frozen=True)
class Machine:
    """What tile sizes depend on."""

    vector_bytes: int
    registers: int
    """Vector registers."""
    threads: int
    limits: CpuLimits = USUAL_CPU
    dots: frozenset[str] = frozenset()
    """Names of the dot instructions that it has."""
    halves: bool = False
    """Whether it computes with vectors of float16."""

    def lanes(self, bits: int) -> int:
        """Return how many elements of that width a register holds."""
        return max(1, self.vector_bytes * 8 // max(bits, 8))


def describe_machine(target: tvm.target.Target) -> Machine:
    """Return what the target's attributes say, else what every CPU of its architecture has."""
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
    """Return the divisors up to the limit, ascending."""
    return [each for each in range(1, min(number, limit) + 1) if number % each == 0]


def power_of_two_divisor(number: int, limit: int) -> int:
    """Return the largest power of two that divides the number and is within the limit."""
    return min(number & -number, 1 << (limit.bit_length() - 1))
