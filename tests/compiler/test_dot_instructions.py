"""Which instruction adds up products of 8 bits on which CPU, and that it is in the code."""

from __future__ import annotations

import numpy as np
import pytest
from quantised_graphs import Network

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import AttributeValue
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.dot_instructions import INSTRUCTIONS, choose_instruction, find_instruction
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.target import tvm_target

X86: dict[str, AttributeValue] = {"mtriple": "x86_64-linux-gnu", "num-cores": 2}
IN_CODE = {
    "cascadelake": ("dot_avx512_vnni", "vpdpbusd"),
    "znver4": ("dot_avx512_vnni", "vpdpbusd"),
    "alderlake": ("dot_avx_vnni", "vpdpbusd"),
    "x86-64-v4": ("dot_avx512", "vpmaddwd"),
    "x86-64-v3": ("dot_avx2", "vpmaddwd"),
}


def test_the_quickest_of_those_that_a_cpu_has() -> None:
    everything = set().union(*(each.features for each in INSTRUCTIONS))
    assert choose_instruction(everything) == INSTRUCTIONS[0]
    assert choose_instruction(set()) is None
    for each in INSTRUCTIONS:
        assert choose_instruction(each.features) == each


def test_other_machines_have_none_yet() -> None:
    arm = tvm_target("llvm", FrozenMap({"mcpu": "cortex-a76", "mtriple": "aarch64-linux-gnu"}), FrozenMap())
    assert find_instruction(arm) is None
    old = tvm_target("llvm", FrozenMap({"mcpu": "x86-64", "mtriple": "x86_64-linux-gnu"}), FrozenMap())
    assert find_instruction(old) is None


@pytest.mark.compiler
@pytest.mark.parametrize("cpu", IN_CODE)
def test_the_code_has_it(cpu: str) -> None:
    """Built on any machine, for the instruction's own: LLVM would end the process for a feature that is not there."""
    import tvm

    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh((32, 16, 3, 3))
    summed = net.add("Conv", [net.round("x", 0.02, 131), weights, net.offset(32, scales, 0.02)], pads=[1, 1, 1, 1])
    target = tvm_target("llvm", FrozenMap({"mcpu": cpu, **X86}), FrozenMap())
    found, (name, instruction) = find_instruction(target), IN_CODE[cpu]
    assert found is not None
    assert found.name == name
    lowered = lower(import_onnx(net.finish(net.round(summed, 0.1, 120), (1, 16, 14, 14))), target)
    mod = apply_records(lowered, target, tvm.s_tir.meta_schedule.database.MemoryDatabase()).mod
    (function,) = (each for variable, each in mod.functions.items() if "conv2d_int8" in variable.name_hint)
    text = tvm.tirx.build(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target).inspect_source(
        "s"
    )
    assert text.count(instruction) >= 8
    assert "vpmaddubsw" not in text
