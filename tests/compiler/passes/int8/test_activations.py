"""Products of two activations in integers: equal to ONNX Runtime to the last bit, by each target's instruction."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import helper
from quantised_graphs import IN_SCALE, Network, compute, run_optimized
from quantized_nodes import BYTES, Drawn, run_onnx
from vulkan_devices import HOST, LEAST

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.byte_matrices import MAX_DEPTH
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model, import_onnx
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.ir.prim_funcs import list_blocks
from tvmbuild.compiler.machine.dot_instructions import ANNOTATION, find_instruction
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.passes.int8.lower_qdq_to_int8 import lower_qdq_to_int8
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.cpu.rules import sums_without_tiles
from tvmbuild.compiler.tasks import extract_tasks

pytestmark = pytest.mark.compiler
SHAPE = (2, 3, 20, 33)
OUT = 0.3
CPUS = ("znver4", "alderlake", "x86-64-v4", "x86-64-v3", "x86-64", "neoverse-n2", "cortex-a76", "cortex-a72")
CARD = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
GPUS = {
    "cuda": tvm_target("cuda", FrozenMap({"arch": "sm_86", **CARD}), HOST),
    "vulkan": tvm_target("vulkan", FrozenMap({**LEAST, "supports_integer_dot_product": True}), HOST),
}


def attention(activations: str = "uint8", zeros: tuple[int, int] = (131, 77)) -> bytes:
    """Return x → x xᵀ x, each rounded."""
    net = Network(np.random.RandomState(0), activations)
    data, other = (net.round("x", IN_SCALE, zero) for zero in zeros)
    scores = net.round(net.add("MatMul", [data, net.add("Transpose", [other], perm=[0, 1, 3, 2])]), OUT, 120)
    return net.finish(net.round(net.add("MatMul", [scores, other]), 9.0, 100), SHAPE)


def describe(cpu: str) -> tvm.target.Target:
    triple = "aarch64-linux-gnu" if cpu.startswith(("cortex", "neoverse")) else "x86_64-linux-gnu"
    return tvm_target("llvm", FrozenMap({"mcpu": cpu, "mtriple": triple, "num-cores": 2}), FrozenMap())


def run_attention(zeros: tuple[int, int] = (131, 77)) -> np.ndarray:
    """Return ONNX Runtime's results in uint8: its sums of two int8 tensors saturate on CPUs without VNNI.

    The network in int8 has the same numbers, because its data and its zero points are both 128 less.
    """
    return run_optimized(attention("uint8", zeros), {"x": draw()})["y"]


def draw() -> np.ndarray:
    return np.random.RandomState(1).uniform(-3, 3, SHAPE).astype(np.float32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cpu", ["here", "x86-64-v3"])
@pytest.mark.parametrize("zeros", [(131, 77), (0, 128), (128, 0), (255, 255)])
@pytest.mark.parametrize("activations", BYTES)
def test_attention(activations: str, zeros: tuple[int, int], cpu: str) -> None:
    model = attention(activations, zeros)
    sums = operator_calls(lower_qdq_to_int8(import_onnx(model).mod), "relax.matmul")
    assert [str(call.ty.dtype) for call in sums] == ["int32", "int32"]
    want = run_attention(zeros)
    assert np.unique(want).size > 10
    got = compute(model, draw(), host_target(threads=2) if cpu == "here" else describe(cpu))
    np.testing.assert_array_equal(got, want)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cpu", CPUS)
def test_the_target_s_instruction_is_used(cpu: str) -> None:
    target = describe(cpu)
    lowered = lower(import_onnx(attention()), target)
    blocks = [block for task in extract_tasks(lowered) for block in list_blocks(task.mod["main"])]
    instruction = find_instruction(target)
    named = [str(block.annotations[ANNOTATION]) for block in blocks if ANNOTATION in block.annotations]
    assert len(named) == (0 if instruction is None else 2)
    assert all(instruction is not None and name.startswith(instruction.name) for name in named)
    machine = describe_machine(target)
    assert [task.name for task in extract_tasks(lowered) if sums_without_tiles(task.mod["main"], machine)] == []


def test_they_stay_in_floats_without_an_instruction() -> None:
    model = attention()
    sums = operator_calls(lower_qdq_to_int8(import_onnx(model).mod, plain=True), "relax.matmul")
    assert [str(call.ty.dtype) for call in sums] == ["float32", "float32"]


@pytest.mark.parametrize("kind", GPUS)
@pytest.mark.parametrize("activations", BYTES)
def test_gpus_multiply_words(activations: str, kind: str) -> None:
    model = attention(activations)
    lowered = lower(import_onnx(model), GPUS[kind])
    assert str(lowered.mod).count("T.dp4a(") == 2
    got = build_here(lowered, host_target())({"x": draw()})["y"]
    np.testing.assert_array_equal(got, run_attention())


@st.composite
def products(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    drawn = Drawn.start(draw)
    left, right = drawn.pick(("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))
    rows, depth, columns = drawn.pick(1, 5), drawn.pick(1, 4, 63), drawn.pick(1, 8, 17)
    many, shared = drawn.pick((), (2,), (2, 3)), drawn.pick(True, False)
    names = [drawn.tensor("a", (*many, rows, depth), left)]
    names.append(drawn.tensor("b", (*(() if shared else many), depth, columns), right))
    per_column = (columns,) if shared or not many else (*many, 1, columns)
    for name, kind, shape in (("az", left, ()), ("bz", right, drawn.pick((), per_column))):
        drawn.fed[name] = drawn.random.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        names.append(name)
    return drawn.model(helper.make_node("MatMulInteger", names, ["y"])), drawn.fed


@given(drawn=products(), kind=st.sampled_from(["cpu", *GPUS]))
@settings(max_examples=draws(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_whose_zero_points_the_call_knows(
    drawn: tuple[onnx.ModelProto, dict[str, np.ndarray]], kind: str
) -> None:
    model, fed = drawn
    target = host_target(threads=2)
    lowered = lower(import_model(model, "node"), GPUS.get(kind, target))
    assert kind == "cpu" or "T.dp4a(" in str(lowered.mod)
    (got,) = build_here(lowered, target)(fed).values()
    (want,) = run_onnx(model, fed)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1])
def test_the_longest_rows(depth: int) -> None:
    fed = {"a": np.full((1, depth), 255, "uint8"), "b": np.full((depth, 2), 0, "uint8")}
    drawn = Drawn(np.random.default_rng(0), fed=fed)
    names = ["a", "b", drawn.constant("az", 0, "uint8"), drawn.constant("bz", 255, "uint8")]
    imported = import_model(drawn.model(helper.make_node("MatMulInteger", names, ["y"])), "node")
    (product,) = operator_calls(imported.mod, "relax.matmul")
    assert str(product.args[0].ty.dtype) == ("uint8" if depth == MAX_DEPTH else "int32")
    target = host_target(threads=2)
    (got,) = build_here(lower(imported, target), target)(fed).values()
    assert got.tolist() == [[-255 * 255 * depth] * 2]
