"""Instructions that add several products of 8 bits to each of a vector's sums: which of them a target has.

LLVM ends the process where it is asked for one that the target lacks, so its own list of features decides.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import tvm
from tvm.target import codegen

ANNOTATION = "dot"
"""Of a block that adds up groups of products: the instruction's name."""


@dataclass(frozen=True)
class DotInstruction:
    """sums[lane] += Σ data[k] · int8[lane, k] over a group."""

    name: str
    """Also of TVM's tensor intrinsic."""
    features: frozenset[str]
    """LLVM's names; one set of those that are needed together."""
    lanes: int
    group: int
    """Products that are added to one sum."""
    data: str
    """What it takes numbers of uint8 as: itself, or int16."""
    llvm: str


INSTRUCTIONS = (
    DotInstruction("dot_avx512_vnni", frozenset({"avx512vnni"}), 16, 4, "uint8", "llvm.x86.avx512.vpdpbusd.512"),
    DotInstruction("dot_avx_vnni", frozenset({"avxvnni"}), 8, 4, "uint8", "llvm.x86.avx512.vpdpbusd.256"),
    DotInstruction("dot_avx512", frozenset({"avx512bw"}), 16, 2, "int16", "llvm.x86.avx512.pmaddw.d.512"),
    DotInstruction("dot_avx2", frozenset({"avx2"}), 8, 2, "int16", "llvm.x86.avx2.pmadd.wd"),
)
"""The quickest first. All are exact: the one that adds pairs of 8 bits in 16 (vpmaddubsw) is not, and is not used."""


def find_instruction(target: tvm.target.Target) -> DotInstruction | None:
    """Return the quickest that the CPU target has; None where it has none."""
    if str(target.kind.name) != "llvm":
        return None
    return choose_instruction({str(name) for name in codegen.llvm_get_cpu_features(target)})


def choose_instruction(features: AbstractSet[str]) -> DotInstruction | None:
    """Return the quickest that a CPU of these features has."""
    return next((each for each in INSTRUCTIONS if each.features <= features), None)
