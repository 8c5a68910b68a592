"""Dot-product instructions, which add several products of 8 bits to each lane's sum, and the targets that have them.

LLVM ends the process if it is asked for an instruction that the target lacks, so LLVM's own list of features decides.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import tvm
from tvm.target import codegen

from tvmbuild.base.host_cpu import machine_of

ANNOTATION = "dot"
"""The annotation of a block that adds up groups of products; the value is the tensor intrinsic's name."""
COLUMNS = "columns"
"""The annotation's value in a block that makes words of neighbouring columns."""


@dataclass(frozen=True)
class DotInstruction:
    """An instruction: sums[lane] += Σ data[k] · int8[k // group, lane, k % group] over the groups of one use."""

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
    """The most groups of one use; their data lie in one register, whose elements the instruction can index."""
    halves: str = ""
    """LLVM's name of the instruction that adds pairs of bytes in 16 bits: exact for data of 4 bits, not of 8."""

    @property
    def intrinsic(self) -> str:
        """Return the name of TVM's tensor intrinsic."""
        return f"{self.name}_{self.steps}"

    @property
    def adds_columns(self) -> bool:
        """Return whether depthwise convolutions use it: it adds four bytes of each lane, of both its operands."""
        return self.machine == "x86_64" and self.group == 4

    @property
    def of_columns(self) -> str:
        """Return the name of the tensor intrinsic that adds to each lane the products of its own columns."""
        return f"{self.name}_columns"

    @property
    def registers(self) -> int:
        """Return the number of registers for widened values and products, beside those of sums, data and weights."""
        if self.group > 2:
            return 0
        return 2 if self.data == "int16" else 6

    @property
    def depthwise(self) -> str:
        """Return the type of the weights of depthwise convolutions: ARM multiplies int16 to int32."""
        return "int16" if self.machine == "aarch64" else "float32"

    @property
    def depth(self) -> int:
        """Return the number of products that one use adds to one sum."""
        return self.group * self.steps

    def fit(self, groups: int) -> DotInstruction:
        """Return the instruction with a number of steps that divides the number of groups."""
        steps = self.steps
        while groups % steps:
            steps //= 2
        return replace(self, steps=steps)

    @property
    def tensor(self) -> str:
        """The type of the data in the graph; wider data are widened where they are read."""
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
    """Return each instruction with each number of steps that one use may have."""
    return [each.fit(steps) for each in INSTRUCTIONS for steps in (1, 2, 4) if steps <= each.steps]


def find_instruction(target: tvm.target.Target) -> DotInstruction | None:
    """Return the CPU target's fastest instruction; None if it has no dot instruction."""
    return next(iter(find_instructions(target)), None)


def find_instructions(target: tvm.target.Target) -> list[DotInstruction]:
    """Return the CPU target's instructions, the fastest first."""
    if str(target.kind.name) != "llvm":
        return []
    machine = machine_of(str(target.attrs.get("mtriple", "") or codegen.llvm_get_system_triple()))
    return choose_instructions(machine, {str(name) for name in codegen.llvm_get_cpu_features(target)})


def choose_instructions(machine: str, features: AbstractSet[str]) -> list[DotInstruction]:
    """Return the instructions of a CPU with these features; 32-bit ARM uses LLVM's names of them but has none."""
    return [each for each in INSTRUCTIONS if each.machine == machine and each.feature in features]
