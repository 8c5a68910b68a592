"""Dot-product instructions, which add several products of 8-bit numbers to each lane's sum, and CPUs that have them.

LLVM ends the process if it is asked for an instruction that the target lacks, so LLVM's own list of features decides.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import tvm
from tvm.target import codegen

from tvmbuild.base.host_cpu import machine_of

ANNOTATION = "dot"
"""The annotation of a block that adds up groups of products; its value is the name of the tensor intrinsic."""
COLUMNS = "columns"
"""The annotation's value in a block that joins bytes of neighbouring columns to words."""


@dataclass(frozen=True)
class DotInstruction:
    """A dot-product instruction: sums[lane] += Σ data[k] · int8[k // group, lane, k % group] over one use's groups."""

    name: str
    machine: str
    feature: str
    """LLVM's name of the CPU feature."""
    lanes: int
    group: int
    """The number of products that are added to one sum."""
    data: str
    """The type that replaces uint8 data: uint8 itself, int8 (128 less), or int16."""
    llvm: str
    steps: int = 1
    """The largest number of groups in one use; a register holds their data, whose elements can be indexed."""
    halves: str = ""
    """LLVM's name of an instruction that adds pairs of products of bytes in 16 bits, exact for data of 4 bits only."""

    @property
    def intrinsic(self) -> str:
        """Return the name of the tensor intrinsic for this instruction and number of steps."""
        return f"{self.name}_{self.steps}"

    @property
    def adds_columns(self) -> bool:
        """Return whether depthwise convolutions use the instruction.

        It must multiply four bytes in each lane of both operands.
        """
        return self.machine == "x86_64" and self.group == 4

    @property
    def of_columns(self) -> str:
        """Return the name of the tensor intrinsic that adds to each lane the products of its own columns."""
        return f"{self.name}_columns"

    @property
    def registers(self) -> int:
        """Return the number of registers for widened values and products, without those for sums, data and weights."""
        if self.group > 2:
            return 0
        return 2 if self.data == "int16" else 6

    @property
    def depthwise(self) -> str:
        """Return the type of depthwise weights: int16 on ARM, which multiplies int16 to int32, else float32."""
        return "int16" if self.machine == "aarch64" else "float32"

    @property
    def depth(self) -> int:
        """Return the number of products that one use adds to one sum."""
        return self.group * self.steps

    def fit(self, groups: int) -> DotInstruction:
        """Return the instruction with its number of steps halved until it divides the number of groups."""
        steps = self.steps
        while groups % steps:
            steps //= 2
        return replace(self, steps=steps)

    @property
    def tensor(self) -> str:
        """The type of the data in the graph; wider data of an instruction are widened when they are read."""
        return "uint8" if self.data == "int16" else self.data


INSTRUCTIONS = (
    DotInstruction("dot_avx512_vnni", "x86_64", "avx512vnni", 16, 4, "uint8", "llvm.x86.avx512.vpdpbusd.512"),
    DotInstruction("dot_avx_vnni", "x86_64", "avxvnni", 8, 4, "uint8", "llvm.x86.avx512.vpdpbusd.256"),
    DotInstruction(
        "dot_avx512",
        "x86_64",
        "avx512bw",
        16,
        2,
        "int16",
        "llvm.x86.avx512.pmaddw.d.512",
        halves="llvm.x86.avx512.pmaddubs.w.512",
    ),
    DotInstruction(
        "dot_avx2", "x86_64", "avx2", 8, 2, "int16", "llvm.x86.avx2.pmadd.wd", halves="llvm.x86.avx2.pmadd.ub.sw"
    ),
    DotInstruction("dot_i8mm", "aarch64", "i8mm", 4, 4, "uint8", "llvm.aarch64.neon.usdot.v4i32.v16i8", 4),
    DotInstruction("dot_dotprod", "aarch64", "dotprod", 4, 4, "int8", "llvm.aarch64.neon.sdot.v4i32.v16i8", 4),
    DotInstruction("dot_neon", "aarch64", "neon", 8, 2, "int8", "llvm.aarch64.neon.saddlp.v4i32.v8i16", 4),
)
"""The dot instructions, fastest first. All are exact; vpmaddubsw is exact for half bytes only (``halves``)."""


def list_intrinsics() -> list[DotInstruction]:
    """Return all dot instructions, each once for every number of steps that one use may have."""
    return [each.fit(steps) for each in INSTRUCTIONS for steps in (1, 2, 4) if steps <= each.steps]


def list_names() -> set[str]:
    """Return the names of the tensor intrinsics of all dot instructions."""
    return {each.intrinsic for each in list_intrinsics()} | {each.of_columns for each in INSTRUCTIONS}


def find_instruction(target: tvm.target.Target) -> DotInstruction | None:
    """Return the fastest dot instruction of a CPU target, or None if the target has none."""
    return next(iter(find_instructions(target)), None)


def find_instructions(target: tvm.target.Target) -> list[DotInstruction]:
    """Return the dot instructions of a CPU target, the fastest first; other targets have none."""
    if str(target.kind.name) != "llvm":
        return []
    machine = machine_of(str(target.attrs.get("mtriple", "") or codegen.llvm_get_system_triple()))
    return choose_instructions(machine, {str(name) for name in codegen.llvm_get_cpu_features(target)})


def choose_instructions(machine: str, features: AbstractSet[str]) -> list[DotInstruction]:
    """Return the dot instructions of a CPU of this architecture with these features, the fastest first.

    32-bit ARM has features of the same names in LLVM, but none of the instructions.
    """
    return [each for each in INSTRUCTIONS if each.machine == machine and each.feature in features]
