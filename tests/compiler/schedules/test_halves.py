"""Sums of `precision: fp16` on CPUs: 64 products at a time are summed in float16, and these sums in float32."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tvm import s_tir, tirx
from tvm.s_tir.meta_schedule.database import MemoryDatabase

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.prim_funcs import list_blocks, list_nodes
from tvmbuild.compiler.machine import machine
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.schedules.cpu.halves import LONGEST_SUM
from tvmbuild.compiler.tasks import extract_tasks

pytestmark = pytest.mark.compiler
Case = tuple[str, tuple[int, ...], dict[str, tuple[int, ...]], dict[str, Any]]
FEW = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
LONG = 100_000
PRODUCTS: dict[str, Case] = {
    "MatMul": ("MatMul", (3, LONG), {"w": (LONG, 32)}, {}),
    "MatMul of a prime": ("MatMul", (3, 1009), {"w": (1009, 40)}, {}),
    "Gemm": ("Gemm", (5, 2048), {"w": (33, 2048), "b": (33,)}, {"transB": 1}),
    "Conv": ("Conv", (1, 224, 9, 9), {"w": (32, 224, 3, 3)}, {"pads": [1, 1, 1, 1]}),
    "Conv in groups": ("Conv", (1, 256, 9, 9), {"w": (64, 128, 3, 3)}, {"group": 2}),
    "Conv of one dimension": ("Conv", (1, 400, 12), {"w": (32, 400, 5)}, {}),
    "Conv of three": ("Conv", (1, 64, 5, 5, 5), {"w": (32, 64, 3, 3, 3)}, {}),
    "Conv depthwise": ("Conv", (1, 32, 40, 40), {"w": (32, 1, 33, 33)}, {"group": 32}),
    "ConvTranspose": ("ConvTranspose", (1, 256, 5, 5), {"w": (256, 32, 3, 3)}, {"strides": [2, 2]}),
    "ConvTranspose of few channels": ("ConvTranspose", (1, 256, 5, 5), {"w": (256, 2, 3, 3)}, {"strides": [2, 2]}),
    "patches of few channels": ("ConvTranspose", (1, 512, 5, 5), {"w": (512, 2, 2, 2)}, {"strides": [2, 2]}),
    "ConvTranspose of patches": ("ConvTranspose", (1, 512, 5, 5), {"w": (512, 32, 2, 2)}, {"strides": [2, 2]}),
}
REDUCTIONS: dict[str, dict[str, Any]] = {
    "ReduceMean": {"axes": [2, 3]},
    "ReduceL2": {"axes": [2, 3]},
    "ReduceSumSquare": {"axes": [2, 3]},
    "GlobalAveragePool": {},
    "AveragePool": {"kernel_shape": [248, 398]},
    "CumSum": {},
}


def make_model(case: Case) -> tuple[onnx.ModelProto, np.ndarray]:
    """Return a product of numbers near 4 with constants of one sign, and its input; float16 represents all of them."""
    operator, shape, weights, attributes = case
    random = np.random.default_rng(0)
    data = random.uniform(3, 5, shape).astype(np.float16).astype(np.float32)
    length = max(np.prod(size) for size in weights.values())
    largest = min(1.0, 2000 / length * next(iter(weights.values()))[-1])
    constants = {name: random.uniform(largest / 2, largest, size).astype(np.float16) for name, size in weights.items()}
    node = helper.make_node(operator, ["x", *weights], ["y"], **attributes)
    return save([node], constants, shape), data


def save(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], shape: tuple[int, ...]) -> onnx.ModelProto:
    wide = {name: each if each.dtype == np.int64 else each.astype(np.float32) for name, each in constants.items()}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(each, name) for name, each in wide.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def narrow(model: onnx.ModelProto, target: tvm.target.Target) -> Lowered:
    return lower(reduce_precision(import_model(model, "net"), "fp16", "llvm"), target)


def measure_error(model: onnx.ModelProto, data: np.ndarray, target: tvm.target.Target) -> float:
    """Return the largest error of the network in float16, relative to ONNX Runtime's result in float32."""
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": data})
    got = build_here(narrow(model, target), target)({"x": data})["y"]
    assert got.shape == want.shape
    return float((np.abs(got - want) / np.abs(want)).max())


@pytest.fixture
def computes_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let CPUs without float16 vectors pass for CPUs with them: LLVM computes each number in float32 and rounds it."""
    monkeypatch.setattr(machine, "HALVES", frozenset({"avx2"}))


def describe(triple: str, cpu: str) -> tvm.target.Target:
    attributes: Attributes = FrozenMap({"mcpu": cpu, "mtriple": triple, "num-cores": 2})
    return tvm_target("llvm", attributes, FrozenMap())


CPUS = {
    "sapphirerapids": describe("x86_64-linux-gnu", "sapphirerapids"),
    "cortex-a76": describe("aarch64-linux-gnu", "cortex-a76"),
}
FUSED = {"sapphirerapids": (r"vfmadd\w+ph\s", r"vfmadd\w+ps\s"), "cortex-a76": (r"fmla\s+v\d+\.8h", r"fmla\s+v\d+\.4s")}


@pytest.mark.parametrize("case", ["Conv", "MatMul", "MatMul of a prime", "Conv depthwise", "ConvTranspose"])
@pytest.mark.usefixtures("computes_halves")
def test_a_long_sum_is_right(case: str, cpu: tvm.target.Target) -> None:
    assert measure_error(*make_model(PRODUCTS[case]), cpu) < 0.003


@pytest.mark.nightly
@pytest.mark.parametrize("halves", [True, False])
@pytest.mark.parametrize("case", PRODUCTS)
def test_every_long_sum_is_right(
    case: str, halves: bool, cpu: tvm.target.Target, request: pytest.FixtureRequest
) -> None:
    if halves:
        request.getfixturevalue("computes_halves")
    assert measure_error(*make_model(PRODUCTS[case]), cpu) < (0.003 if halves else 0.0006)


@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions_of_what_is_float16_are_float32(operator: str, cpu: tvm.target.Target) -> None:
    shape = (1, 1, 250, 400)
    data = np.random.default_rng(0).uniform(3, 5, shape).astype(np.float16).astype(np.float32)
    constants = {"w": np.ones((2, 1, 1, 1), np.float16)}
    inputs = ["a", "axis"] if operator == "CumSum" else ["a"]
    if operator == "CumSum":
        constants["axis"] = np.array(3, np.int64)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node(operator, inputs, ["y"], **REDUCTIONS[operator]),
    ]
    assert measure_error(save(nodes, constants, shape), data, cpu) < 0.0006


@st.composite
def draw_products(draw: st.DrawFn) -> Case:
    """Draw a product with a sum of up to 3,000 terms."""
    kind = draw(st.sampled_from(["MatMul", "Gemm", "Conv", "Conv", "ConvTranspose"]))
    inputs, outputs = draw(st.integers(1, 300)), draw(st.sampled_from([1, 3, 8, 16, 24, 32, 33]))
    if kind == "MatMul":
        return kind, (draw(st.integers(1, 9)), 10 * inputs), {"w": (10 * inputs, outputs)}, {}
    if kind == "Gemm":
        turned = draw(st.integers(0, 1))
        shape = (outputs, 5 * inputs) if turned else (5 * inputs, outputs)
        return kind, (4, 5 * inputs), {"w": shape, "b": (outputs,)}, {"transB": turned}
    rank, groups = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 16]))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    own, whole = -(-inputs // groups), (1, -(-inputs // groups) * groups, *[7, 6, 5][:rank])
    attributes: dict[str, Any] = {"group": groups, "strides": [draw(st.integers(1, 2)) for _ in range(rank)]}
    if kind == "Conv":
        return kind, whole, {"w": (outputs * groups, own, *kernel)}, attributes
    return kind, whole, {"w": (own * groups, outputs, *kernel)}, attributes


def check_drawn(case: Case, target: tvm.target.Target) -> None:
    model, data = make_model(case)
    assert_sums_are_short(narrow(model, target))
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": data})
    got = build_here(narrow(model, target), target)({"x": data})["y"]
    np.testing.assert_allclose(got, want, rtol=0.005, atol=1e-3 * float(np.abs(want).max()), err_msg=str(case))


@seed(39)
@settings(FEW, max_examples=5, database=None)
@given(case=draw_products())
@pytest.mark.usefixtures("computes_halves")
def test_drawn_products(case: Case, cpu: tvm.target.Target) -> None:
    check_drawn(case, cpu)


@pytest.mark.nightly
@settings(FEW, max_examples=60)
@given(case=draw_products())
@pytest.mark.usefixtures("computes_halves")
def test_many_drawn_products(case: Case, cpu: tvm.target.Target) -> None:
    check_drawn(case, cpu)


def assert_sums_are_short(lowered: Lowered) -> None:
    """Assert, before any schedule, that float16 sums have at most LONGEST_SUM terms."""
    functions = [each for each in lowered.mod.functions.values() if isinstance(each, tirx.PrimFunc)]
    for block in (each for function in functions for each in list_blocks(function)):
        store = block.body
        if block.init is None or not isinstance(store, tirx.BufferStore) or str(store.buffer.dtype) != "float16":
            continue
        if isinstance(store.value, tirx.Add):
            summed = [int(var.dom.extent) for var in block.iter_vars if var.iter_type == tirx.IterVar.CommReduce]
            assert np.prod(summed) <= LONGEST_SUM, block


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    "case",
    ["Conv", "MatMul", "Conv depthwise", "ConvTranspose", "ConvTranspose of few channels", "patches of few channels"],
)
def test_products_are_vectors_of_float16(case: str, cpu: str) -> None:
    target, (half, single) = CPUS[cpu], FUSED[cpu]
    model, _ = make_model(PRODUCTS[case])
    lowered = narrow(model, target)
    assert not [task.name for task in extract_tasks(lowered) if "conv2d_transpose" in task.name]
    assert_sums_are_short(lowered)
    executable = build_executable(apply_records(lowered, target, MemoryDatabase()).mod, target)
    code = next(m for m in [executable.mod, *executable.mod.imports] if m.kind == "llvm").inspect_source("asm")
    assert re.search(half, code)
    assert not re.search(single, code)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("case", ["Conv", "Gemm"])
def test_what_is_added_up_in_float16_is_short(case: str, cpu: str) -> None:
    target = CPUS[cpu]
    applied = apply_records(narrow(make_model(PRODUCTS[case])[0], target), target, MemoryDatabase())
    functions = [each for each in applied.mod.functions.values() if isinstance(each, tirx.PrimFunc)]
    updates = [each for function in functions for each in _list_updates(function)]
    assert updates
    for names, loops in updates:
        # The loops as they are nested: those of the sum, inside the statement that sets partial sums to 0.
        assert np.prod([extent for name, extent in loops.items() if name in names]) <= LONGEST_SUM


def _list_updates(function: tirx.PrimFunc) -> list[tuple[set[str], dict[str, int]]]:
    """Return each float16 sum's reduction variables, and the loops inside its initialisation with their extents."""
    found = []
    for sequence in list_nodes(function, tirx.SeqStmt):
        for statement in sequence.seq:
            loops, body = {}, statement
            while isinstance(body, tirx.For):
                loops[body.loop_var.name], body = int(body.extent), body.body
            if not isinstance(body, s_tir.SBlockRealize) or not isinstance(body.block.body, tirx.BufferStore):
                continue
            store = body.block.body
            if str(store.buffer.dtype) == "float16" and isinstance(store.value, tirx.Add) and body.block.iter_vars:
                pairs = zip(body.iter_values, body.block.iter_vars, strict=True)
                values = [value for value, var in pairs if var.iter_type == tirx.IterVar.CommReduce]
                found.append(({name for name in loops if re.search(rf"\b{name}\b", str(values))}, loops))
    return found
