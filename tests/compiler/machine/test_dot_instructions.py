"""The dot-product instruction of 8 bits for each CPU, and its presence in the code."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from quantised_graphs import Network

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.dot_instructions import (
    INSTRUCTIONS,
    choose_instructions,
    find_instruction,
    list_intrinsics,
)
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower

TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu", "arm": "armv7l-linux-gnueabihf"}
IN_CODE = {
    "cascadelake": ("dot_avx512_vnni", "vpdpbusd"),
    "znver4": ("dot_avx512_vnni", "vpdpbusd"),
    "alderlake": ("dot_avx_vnni", "vpdpbusd"),
    "x86-64-v4": ("dot_avx512", "vpmaddwd"),
    "x86-64-v3": ("dot_avx2", "vpmaddwd"),
    "neoverse-n2": ("dot_i8mm", r"sudot.*\.4b\[3\]"),
    "cortex-a76": ("dot_dotprod", r"\bsdot.*\.4b\[3\]"),
    "cortex-a78ae": ("dot_dotprod", r"\bsdot.*\.4b\[3\]"),
    "cortex-a72": ("dot_neon", "sadalp"),
}
"""The instruction of each CPU, and its assembly: ARM's instructions take the data from elements of a register."""


def describe(cpu: str, machine: str | None = None) -> tvm.target.Target:
    triple = TRIPLES[machine or ("aarch64" if cpu.startswith(("cortex", "neoverse")) else "x86_64")]
    return tvm_target("llvm", FrozenMap[str, AttributeValue]({"mcpu": cpu, "mtriple": triple}), FrozenMap())


def test_the_quickest_of_those_that_a_cpu_has() -> None:
    everything = {each.feature for each in INSTRUCTIONS}
    assert choose_instructions("x86_64", everything)[0].name == "dot_avx512_vnni"
    assert choose_instructions("aarch64", everything)[0].name == "dot_i8mm"
    for each in INSTRUCTIONS:
        assert choose_instructions(each.machine, {each.feature}) == [each]
        assert choose_instructions(each.machine, set()) == []


def test_what_has_none() -> None:
    assert find_instruction(describe("x86-64")) is None
    assert find_instruction(describe("cortex-a76", "arm")) is None  # it has LLVM's feature dotprod
    assert find_instruction(tvm_target("cuda", FrozenMap({"arch": "sm_90"}), FrozenMap({"mcpu": "x86-64-v4"}))) is None


def test_as_many_groups_at_once_as_divide_them() -> None:
    (dotprod,) = (each for each in INSTRUCTIONS if each.name == "dot_dotprod")
    assert [dotprod.fit(groups).steps for groups in (8, 6, 3)] == [4, 2, 1]
    assert dotprod.fit(6).intrinsic in {each.intrinsic for each in list_intrinsics()}
    assert len({each.intrinsic for each in list_intrinsics()}) == len(list_intrinsics())


@pytest.mark.sampled(2)
@pytest.mark.compiler
@pytest.mark.parametrize("cpu", IN_CODE)
def test_the_code_has_it(cpu: str) -> None:
    """The build runs on any machine, for the instruction's own target: LLVM ends the process for a missing feature."""
    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh((32, 16, 3, 3))
    summed = net.add("Conv", [net.round("x", 0.02, 131), weights, net.offset(32, scales, 0.02)], pads=[1, 1, 1, 1])
    target = describe(cpu)
    found, (name, instruction) = find_instruction(target), IN_CODE[cpu]
    assert found is not None
    assert found.name == name
    lowered = lower(import_onnx(net.finish(net.round(summed, 0.1, 120), (1, 16, 14, 14))), target)
    mod = apply_records(lowered, target, tvm.s_tir.meta_schedule.database.MemoryDatabase()).mod
    (function,) = (each for variable, each in mod.functions.items() if "conv2d_int8" in variable.name_hint)
    built = tvm.tirx.build(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target)
    text = built.inspect_source("s")
    assert len(re.findall(instruction, text)) >= 8
    assert "vpmaddubsw" not in text
