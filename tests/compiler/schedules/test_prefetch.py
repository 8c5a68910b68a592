"""Products whose weights come from memory: each tile prefetches the next weights, and the numbers stay the same."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import tirx
from tvm.s_tir.meta_schedule.database import MemoryDatabase

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.prim_funcs import list_nodes
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler


def make_model(rows: int, summed: int, columns: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray], np.ndarray]:
    """Return a product with constant weights, its inputs and its output."""
    random = np.random.default_rng(0)
    data = random.uniform(-1, 1, (rows, summed)).astype(np.float32)
    weights = random.uniform(-1, 1, (summed, columns)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Relu", ["product"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, data.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": data}, np.maximum(data.astype(np.float64) @ weights, 0)


def count_prefetches(model: onnx.ModelProto, target: tvm.target.Target) -> int:
    applied = apply_records(lower(import_model(model, "net"), target), target, MemoryDatabase())
    functions = [each for each in applied.mod.functions.values() if isinstance(each, tirx.PrimFunc)]
    calls = [call for each in functions for call in list_nodes(each, tvm.ir.Call)]
    return sum(str(getattr(call.op, "name", "")) == "tirx.call_llvm_intrin" for call in calls)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("rows", "summed", "columns", "wanted"),
    [
        (64, 512, 1024, True),
        (197, 700, 768, True),
        (33, 1001, 960, True),
        (64, 1009, 960, False),  # a prime: it has no suitable divisor for the steps in between
        (64, 256, 256, False),  # the weights are near enough
        (700, 512, 768, False),  # so much work that waiting does not matter
        (3, 1024, 1024, False),  # so little work that nothing is left to do while waiting
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_what_comes_from_memory_is_asked_for(rows: int, summed: int, columns: int, wanted: bool, threads: int) -> None:
    target = tvm_target("llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": threads}), FrozenMap())
    model, data, want = make_model(rows, summed, columns)
    assert (count_prefetches(model, target) > 0) is wanted
    (got,) = build_here(lower(import_model(model, "net"), target), target)(data).values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_sum_that_asks_for_nothing_stays_one_loop() -> None:
    target = tvm_target("llvm", FrozenMap({"mcpu": "x86-64-v4", "num-cores": 1}), FrozenMap())
    model, _, _ = make_model(49, 512, 512)
    applied = apply_records(lower(import_model(model, "net"), target), target, MemoryDatabase())
    loops = [loop for each in applied.mod.functions.values() for loop in list_nodes(each, tirx.For)]
    assert 512 in [int(loop.extent) for loop in loops]


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_sums_stay_in_registers(cpu: str) -> None:
    """LLVM takes the prefetch for an instruction that may write: sums in memory were stored after each step."""
    target = tvm_target("llvm", FrozenMap({"mtriple": "x86_64-linux-gnu", "mcpu": cpu, "num-cores": 2}), FrozenMap())
    applied = apply_records(lower(import_model(make_model(64, 1024, 1024)[0], "net"), target), target, MemoryDatabase())
    lines = build_executable(applied.mod, target).mod.imports[0].inspect_source("asm").splitlines()
    assert any("prefetcht1" in line for line in lines)
    loops = [loop for loop in re.split(r"\n\.L\w+:", "\n".join(lines)) if loop.count("vfmadd") >= 16]
    assert loops
    for loop in loops:
        inside = loop[: loop.index("\tj")].splitlines()
        stores = [line for line in inside if re.search(r"vmov[au]ps\s+%[xyz]mm\d+, .*\(", line)]
        assert not stores, stores


def test_other_cpus_have_the_instruction() -> None:
    target = tvm_target(
        "llvm", FrozenMap({"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76", "num-cores": 4}), FrozenMap()
    )
    applied = apply_records(lower(import_model(make_model(64, 1024, 1024)[0], "net"), target), target, MemoryDatabase())
    assembly = build_executable(applied.mod, target).mod.imports[0].inspect_source("asm")
    assert "prfm\tpldl2keep" in assembly
