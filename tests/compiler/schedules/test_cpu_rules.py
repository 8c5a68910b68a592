from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphs
import onnxruntime
import pytest
import tvm
from network_files import find_network
from onnx_graphs import RELU, Graph, node
from tvm import relax, s_tir, te, tirx, topi
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler import apply
from tvmbuild.compiler.apply import Applied, apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.prim_funcs import has_plain_loops, list_nodes
from tvmbuild.compiler.machine.machine import Machine, describe_machine, power_of_two_divisor
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.access import find_bound
from tvmbuild.compiler.schedules.cpu.partition import PARTITIONED
from tvmbuild.compiler.schedules.cpu.rules import list_schedules, schedule_function, schedule_uncovered
from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes
from tvmbuild.compiler.schedules.nest import view_nest
from tvmbuild.compiler.tasks import extract_tasks
from tvmbuild.replay.traces import dump_trace, load_record

SaveModel = Callable[..., Path]
Sample = Callable[..., ms.database.MemoryDatabase]

RANDOM = np.random.RandomState(3)
AVX512 = Machine(64, 32, 2)


def draw(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def conv(channels: int, out: int, kernel: int, size: tuple[int, int], **attributes: Any) -> Graph:
    return onnx_graphs.conv(RANDOM, channels, out, kernel, size, RELU, **attributes)


def graph(shape: tuple[int, ...], *nodes: onnx.NodeProto, **weights: np.ndarray) -> Graph:
    return nodes, weights, shape


CONVOLUTIONS: dict[str, Graph] = {
    "pointwise": conv(16, 64, 1, (14, 14)),
    "first": conv(3, 32, 3, (30, 30), strides=[2, 2], pads=[1, 1, 1, 1]),
    "padded": conv(24, 40, 3, (13, 13), pads=[1, 1, 1, 1]),
    "primes": conv(7, 13, 3, (11, 17), pads=[0, 1, 2, 1]),
    "strided-and-dilated": conv(8, 16, 3, (23, 19), strides=[2, 1], dilations=[2, 2]),
    "depthwise": conv(32, 32, 3, (15, 15), group=32, pads=[1, 1, 1, 1]),
    "depthwise-5x5-stride-2": conv(48, 48, 5, (20, 20), group=48, strides=[2, 2], pads=[2, 2, 2, 2]),
    "depthwise-odd": conv(29, 29, 3, (9, 9), group=29),
    "depthwise-twice-the-channels": conv(8, 16, 3, (9, 9), group=8),
    "depthwise-thrice-the-channels": conv(40, 120, 5, (13, 11), group=40, strides=[2, 1], pads=[2, 2, 1, 2]),
    "depthwise-of-odd-channels": conv(5, 10, 3, (9, 9), group=5, dilations=[2, 1]),
    "groups": conv(16, 32, 3, (8, 8), group=4, pads=[1, 1, 1, 1]),
    "one-channel-out": conv(16, 1, 1, (13, 13)),
    "one-channel-in": conv(1, 8, 5, (12, 12)),
    "channels-of-a-detector": conv(32, 255, 1, (13, 13)),
    "no-more-than-a-pixel": conv(32, 1000, 1, (1, 1)),
    "many-channels": conv(128, 256, 1, (7, 7)),
    "transposed": graph(
        (1, 24, 9, 10),
        node("ConvTranspose", "x", "w", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
        w=draw(24, 16, 3, 3),
    ),
    "transposed-equal": graph(
        (1, 24, 8, 10), node("ConvTranspose", "x", "w", strides=[2, 2], pads=[1, 1, 1, 1]), w=draw(24, 32, 4, 4)
    ),
}


OTHERS: dict[str, Graph] = {
    "matmul": graph((33, 64), node("MatMul", "x", "w"), w=draw(64, 96)),
    "matmul-of-primes": graph((17, 31), node("MatMul", "x", "w"), w=draw(31, 13)),
    "row-times-matrix": graph((1, 128), node("Gemm", "x", "w", "b"), w=draw(128, 500), b=draw(500)),
    "transposed-weights": graph((1, 128), node("Gemm", "x", "w", transB=1), w=draw(70, 128)),
    "elementwise-of-odd-rows": graph((13, 197), node("Erf", "x", out="e"), node("Mul", "x", "e")),
    "batches": graph(
        (3, 8, 16, 24), node("Transpose", "x", out="t", perm=[0, 1, 3, 2]), node("MatMul", "x", "t")
    ),
    "softmax": graph((4, 37), node("Softmax", "x", axis=-1)),
    "softmax-of-many": graph((12, 128, 128), node("Softmax", "x", axis=-1)),
    "softmax-along-channels": graph((1, 21, 9, 9), node("Softmax", "x", axis=1)),
    "layer-norm": graph((5, 384), node("LayerNormalization", "x", "s", "b"), s=draw(384), b=draw(384)),
    "mean-of-pixels": graph((1, 64, 7, 7), node("GlobalAveragePool", "x")),
    "mean-of-rows": graph((3, 50, 65), node("ReduceMean", "x", axes=[1], keepdims=0)),
    "sum-of-all": graph((6, 7, 11), node("ReduceSum", "x", out="y", keepdims=1)),
    "norm": graph((9, 48), node("ReduceL2", "x", axes=[1])),
    "maxima": graph((7, 100), node("ReduceMax", "x", axes=[1], keepdims=0)),
    "argmax": graph((7, 33), node("ArgMax", "x", out="i", axis=1, keepdims=0), node("Cast", "i", to=1)),
    "max-pool": graph((1, 32, 16, 16), node("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2])),
    "max-pool-padded": graph(
        (1, 19, 13, 13), node("MaxPool", "x", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    ),
    "average-pool": graph(
        (1, 24, 15, 15), node("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    ),
    "concat": graph((1, 24, 9, 9), node("Tanh", "x", out="t"), node("Concat", "x", "t", "x", axis=1)),
    "concat-last": graph((5, 7), node("Tanh", "x", out="t"), node("Concat", "x", "t", axis=1)),
    "transpose": graph((1, 48, 20, 20), node("Transpose", "x", perm=[0, 2, 3, 1])),
    "transpose-of-pages": graph((1, 24, 32, 32), node("Transpose", "x", perm=[0, 2, 3, 1])),
    "transpose-to-pages": graph((1, 32, 32, 24), node("Transpose", "x", perm=[0, 3, 1, 2])),
    "transpose-to-pages-of-pages": graph((32, 32, 1024), node("Transpose", "x", perm=[2, 0, 1])),
    "transpose-of-few": graph((1, 20, 12, 12), node("Transpose", "x", perm=[0, 2, 3, 1])),
    "transpose-odd": graph((3, 37, 41), node("Transpose", "x", perm=[2, 0, 1])),
    "resize-nearest": graph(
        (1, 16, 13, 13),
        node("Resize", "x", "", "scales", mode="nearest", coordinate_transformation_mode="asymmetric"),
        scales=np.array([1, 1, 2, 2], "float32"),
    ),
    "resize-linear": graph(
        (1, 8, 7, 7), node("Resize", "x", "", "scales", mode="linear"), scales=np.array([1, 1, 2, 2], "float32")
    ),
    "pad": graph((1, 5, 11, 11), node("Pad", "x", "pads"), pads=np.array([0, 0, 1, 2, 0, 0, 0, 3])),
    "slice": graph(
        (1, 16, 12, 12), node("Slice", "x", "from", "to", "axes", "steps"),
        **{"from": np.array([1, 0]), "to": np.array([12, 12]), "axes": np.array([2, 3]), "steps": np.array([2, 3])},
    ),
    "gelu": graph(
        (17, 53), node("Erf", "x", out="e"), node("Mul", "x", "e", out="m"), node("Sigmoid", "m")
    ),
    "broadcast": graph((31, 1, 45), node("Add", "x", "w"), w=draw(1, 21, 45)),
    "scalar": graph((1,), node("Exp", "x")),
    "large": graph((3, 101, 211), node("Sigmoid", "x", out="s"), node("Mul", "x", "s")),
    "transposed-convolution": graph(
        (1, 6, 7, 7), node("ConvTranspose", "x", "w", strides=[2, 2], pads=[1, 1, 1, 1]), w=draw(6, 9, 4, 4)
    ),
    "upsampled-cell": graph(
        (1, 20, 6, 6), node("Relu", "x", out="r"), node("DepthToSpace", "r", blocksize=2)
    ),
}  # fmt: skip


def run(applied: Applied, data: np.ndarray, target: tvm.target.Target) -> np.ndarray:
    machine = relax.VirtualMachine(build_executable(applied.mod, target), tvm.cpu())
    result: np.ndarray = machine["main"](tvm.runtime.tensor(data)).numpy()
    return result


def functions(mod: tvm.ir.IRModule) -> list[tirx.PrimFunc]:
    return [function for function in mod.functions.values() if isinstance(function, tirx.PrimFunc)]


@pytest.mark.compiler
def test_several_outputs_of_a_channel_are_in_vectors_of_channels(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes, weights, shape = CONVOLUTIONS["depthwise-thrice-the-channels"]
    applied = apply_records(
        lower(import_onnx(save_model(nodes, weights, shape)), cpu), cpu, ms.database.MemoryDatabase()
    )
    (main,) = (each.script() for each in functions(applied.mod) if "conv2d_groups" in each.script())
    assert "T.vectorized" in main


@pytest.mark.sampled(14)
@pytest.mark.compiler
@pytest.mark.parametrize("name", [*CONVOLUTIONS, *OTHERS])
def test_the_numbers_are_right_without_records(name: str, save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes, weights, shape = {**CONVOLUTIONS, **OTHERS}[name]
    path = save_model(nodes, weights, shape)
    applied = apply_records(lower(import_onnx(path), cpu), cpu, ms.database.MemoryDatabase())
    assert applied.coverage.covered == {}
    data = draw(*shape)
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    np.testing.assert_allclose(run(applied, data, cpu), want, rtol=1e-4, atol=1e-4)
    if name in CONVOLUTIONS:
        main = [function for function in functions(applied.mod) if "conv2d" in function.script()]
        assert main
        assert all("T.vectorized" in function.script() or "T.unroll" in function.script() for function in main)


@pytest.mark.sampled(1)
@pytest.mark.compiler
@pytest.mark.parametrize("name", ["pointwise", "depthwise", "padded", "first", "transposed", "transposed-equal"])
def test_every_schedule_worth_measuring_can_be_a_record_and_is_right(
    name: str, save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    nodes, weights, shape = CONVOLUTIONS[name]
    path = save_model(nodes, weights, shape)
    lowered, data = lower(import_onnx(path), cpu), draw(*shape)
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    (task,) = (task for task in extract_tasks(lowered) if "conv2d" in task.name)
    found = list_schedules(task.mod, cpu, 5)
    assert len({schedule.mod.script() for schedule in found}) == len(found) >= 4
    for schedule in found:
        database = ms.database.MemoryDatabase()
        workload = database.commit_workload(task.mod)
        trace = dump_trace(ms.database.TuningRecord(schedule.trace, workload, [1.0], cpu, None))
        database.commit_tuning_record(load_record(trace, workload, cpu))
        applied = apply_records(lowered, cpu, database)
        assert list(applied.coverage.covered) == [task.key]
        np.testing.assert_allclose(run(applied, data, cpu), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (0, 3, 1, 2)])
@pytest.mark.parametrize("shape", [(1, 32, 32, 32), (1, 24, 56, 56), (2, 40, 16, 8)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_transposes_are_vectors(
    shape: tuple[int, ...], perm: tuple[int, ...], dtype: str, cpu: tvm.target.Target
) -> None:
    function = te_function(lambda x: topi.transpose(x, perm), te.placeholder(shape, dtype, "x"))
    loops = list_nodes(schedule_function(function, describe_machine(cpu)), tirx.For)
    assert [int(loop.extent) for loop in loops if loop.kind == tirx.ForKind.VECTORIZED] == [8]


@pytest.mark.parametrize(("name", "near_first"), [("first", True), ("padded", False)])
def test_a_picture_is_padded_a_few_rows_at_a_time_and_other_inputs_as_a_candidate(
    name: str, near_first: bool, save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    nodes, weights, shape = CONVOLUTIONS[name]
    lowered = lower(import_onnx(save_model(nodes, weights, shape)), cpu)
    (task,) = (task for task in extract_tasks(lowered) if "conv2d" in task.name)
    is_near = []
    for schedule in list_schedules(task.mod, cpu, 2):
        loops = schedule.get_loops(schedule.get_sblock("pad_temp"))
        is_near.append(len(schedule.get_child_blocks(loops[0])) > 1)
    assert is_near == [near_first, not near_first]


def test_the_first_schedule_worth_measuring_is_the_rules_own(cpu: tvm.target.Target) -> None:
    x, w = te.placeholder((49, 64), "float32", "x"), te.placeholder((64, 96), "float32", "w")
    mod = tvm.IRModule({"main": te_function(topi.nn.matmul, x, w)})
    first, *others = list_schedules(mod, cpu, 16)
    assert others
    own = schedule_function(mod["main"], describe_machine(cpu)).without_attr("tirx.is_scheduled")
    tvm.ir.assert_structural_equal(first.mod["main"], own)


def te_function(make: Callable[..., te.Tensor], *inputs: te.Tensor) -> tirx.PrimFunc:
    return te.create_prim_func([*inputs, make(*inputs)])


def reduce_axis(x: te.Tensor, combine: Callable[..., Any], dtype: str) -> te.Tensor:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0],), lambda i: combine(x[i, k].astype(dtype), axis=k))


TYPED: dict[str, Callable[[], tirx.PrimFunc]] = {
    "uint8-max-pool": lambda: te_function(
        lambda x: topi.nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max", layout="NHWC"),
        te.placeholder((1, 15, 15, 24), "uint8", "x"),
    ),
    "int8-matmul": lambda: te_function(
        lambda a, b: topi.nn.matmul(a, b, out_dtype="int32"),
        te.placeholder((13, 64), "int8", "a"),
        te.placeholder((64, 48), "int8", "b"),
    ),
    "uint8-sum": lambda: te_function(lambda x: reduce_axis(x, te.sum, "int32"), te.placeholder((5, 129), "uint8", "x")),
    "int32-add": lambda: te_function(lambda x: topi.add(x, x), te.placeholder((7, 11), "int32", "x")),
    "int64-compare": lambda: te_function(
        lambda x: topi.greater(x, tirx.const(3, "int64")), te.placeholder((4, 33), "int64", "x")
    ),
    "bool-any": lambda: te_function(lambda x: topi.any(x, axis=1), te.placeholder((9, 65), "bool", "x")),
    "float64-row-maxima": lambda: te_function(
        lambda x: reduce_axis(x, te.max, "float64"), te.placeholder((3, 64), "float64", "x")
    ),
    "float16-softmax": lambda: te_function(
        lambda x: topi.nn.softmax(x, axis=1), te.placeholder((3, 40), "float16", "x")
    ),
    "sizes-of-one": lambda: te_function(
        topi.nn.matmul,
        te.placeholder((1, 1), "float32", "a"),
        te.placeholder((1, 1), "float32", "b"),
    ),
    "cumulated": lambda: te_function(lambda x: topi.cumsum(x, axis=1), te.placeholder((3, 17), "float32", "x")),
}


def fill(buffer: Any, random: np.random.RandomState) -> np.ndarray:
    shape, dtype = tuple(int(extent) for extent in buffer.shape), np.dtype(str(buffer.dtype))
    if dtype.kind == "f":
        return random.uniform(-1, 1, shape).astype(dtype)
    return random.randint(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


@pytest.mark.sampled(3)
@pytest.mark.compiler
@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize("mcpu", ["x86-64-v2", "x86-64-v3"])
def test_every_dtype_gives_what_the_unscheduled_function_gives(name: str, mcpu: str) -> None:
    target = tvm_target(
        "llvm", FrozenMap({"mcpu": mcpu, "mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2}), FrozenMap()
    )
    function = TYPED[name]()
    results = []
    for each in (function, schedule_function(function, describe_machine(target))):
        random = np.random.RandomState(1)
        arrays = [fill(parameter, random) for parameter in function.params]
        arguments = [tvm.runtime.tensor(array) for array in arrays]
        tvm.compile(each.with_attr("global_symbol", "main"), target)["main"](*arguments)
        results.append(arguments[-1].numpy())
    tolerance = 1e-2 if results[0].dtype == np.float16 else 1e-5
    np.testing.assert_allclose(results[1], results[0], rtol=tolerance, atol=tolerance)


def test_the_loops_of_a_function_that_is_no_loop_nest_stay_as_they_are() -> None:
    function = te_function(lambda x: topi.cumsum(x, axis=1), te.placeholder((3, 17), "float32", "x"))
    scheduled = schedule_function(function, AVX512)
    assert scheduled.body.same_as(function.body)
    assert has_plain_loops(scheduled)


def test_what_takes_microseconds_starts_no_threads() -> None:
    x = te.placeholder((8, 16), "float32", "x")
    assert "T.parallel" not in schedule_function(te_function(topi.exp, x), AVX512).script()
    x = te.placeholder((512, 512), "float32", "x")
    assert "T.parallel" in schedule_function(te_function(topi.exp, x), AVX512).script()


def test_vectors_are_as_wide_as_the_target_s_registers() -> None:
    function = te_function(topi.exp, te.placeholder((512, 512), "float32", "x"))
    for vector_bytes, lanes in ((64, 16), (32, 8), (16, 4)):
        assert f"T.vectorized({lanes})" in schedule_function(function, Machine(vector_bytes, 32, 2)).script()


@pytest.mark.parametrize(("sizes", "parts"), [((256, 256, 256), 3), ((64, 192), 4), ((64, 65), None)])
def test_a_concatenation_of_whole_vectors_has_no_branches(sizes: tuple[int, ...], parts: int | None) -> None:
    """TVM does not split loops of 64 bits by branches, where they read at places that are converted from floats."""
    inputs = [te.placeholder((4, size), "float32", f"x{place}") for place, size in enumerate(sizes)]
    function = te_function(lambda *data: topi.concatenate(data, axis=1), *inputs)
    text = schedule_function(function, AVX512).script()
    assert (f"T.unroll({parts})" in text) == (parts is not None)
    assert (PARTITIONED in text) == (parts is None)


@pytest.mark.parametrize(
    ("write", "bound"),
    [
        (lambda v: v >= 8, 8), (lambda v: v > 8, 9), (lambda v: v < 8, 8), (lambda v: v <= 8, 9),
        (lambda v: tirx.LE(tirx.IntImm("int64", 8), v), 8), (lambda v: tirx.LT(tirx.IntImm("int64", 8), v), 9),
        (lambda v: tirx.GE(tirx.IntImm("int64", 8), v), 9), (lambda v: tirx.GT(tirx.IntImm("int64", 8), v), 8),
        (lambda v: v * 2 >= 8, None),
    ],
)  # fmt: skip
def test_a_branch_begins_where_its_condition_changes(write: Callable[[Any], Any], bound: int | None) -> None:
    variable = tirx.Var("v", "int64")
    assert find_bound(write(variable), variable) == bound


@pytest.mark.parametrize(("size", "lanes"), [(8, 8), (64, 16), (24, 8), (2, None)])
def test_axes_that_a_reshape_joined_have_vectors_within_the_last_of_them(size: int, lanes: int | None) -> None:
    """The factor of a row is the same for ``size`` elements, then another."""
    function = te_function(
        lambda x, factors: te.compute((96 * size,), lambda i: x[i] * factors[i // size]),
        te.placeholder((96 * size,), name="x"),
        te.placeholder((96,), name="factors"),
    )
    scheduled = schedule_function(function, AVX512).script()
    assert f"T.vectorized({lanes})" in scheduled if lanes else "T.vectorized" not in scheduled


def test_functions_of_short_parts_are_computed_in_vectors_before_they_are_joined() -> None:
    """Sine and cosine of three coordinates times six frequencies: within the branches each was computed by itself."""

    def features(x: te.Tensor, frequencies: te.Tensor) -> te.Tensor:
        turns = te.compute((640, 18), lambda i, j: x[i, j % 3] * frequencies[j // 3])
        return topi.concatenate([x, topi.sin(turns), topi.cos(turns)], axis=1)

    function = te_function(features, te.placeholder((640, 3), name="x"), te.placeholder((6,), name="frequencies"))
    scheduled = schedule_function(function, AVX512)
    loops = [each for each in list_nodes(scheduled, tirx.For) if each.kind == tirx.ForKind.VECTORIZED]
    text = " ".join(each.script() for each in loops)
    assert "T.sin(" in text
    assert "T.cos(" in text


def test_rows_that_no_vector_divides_have_vectors_that_overlap(cpu: tvm.target.Target) -> None:
    function = te_function(topi.exp, te.placeholder((13, 197), "float32", "x"))
    scheduled = run_tir_passes(schedule_uncovered(tvm.IRModule({"main": function}), cpu), cpu)["main"].script()
    assert "T.vectorized(8)" in scheduled
    assert "T.where" not in scheduled


@pytest.mark.parametrize(
    ("attributes", "machine", "dots"),
    [
        (
            {"mcpu": "x86-64-v4", "mtriple": "x86_64-linux-gnu", "num-cores": 2},
            Machine(64, 32, 2),
            {"dot_avx512", "dot_avx2"},
        ),
        ({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 6}, Machine(32, 16, 6), {"dot_avx2"}),
        ({"mcpu": "x86-64", "mtriple": "x86_64-linux-gnu"}, Machine(16, 16, 4), set()),
        ({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu", "mattr": ("+neon",)}, Machine(16, 32, 4), {"dot_neon"}),
    ],
)
def test_the_machine_is_what_the_target_says(
    attributes: dict[str, AttributeValue], machine: Machine, dots: set[str]
) -> None:
    described = describe_machine(tvm_target("llvm", FrozenMap(attributes), FrozenMap()))
    assert described == replace(machine, dots=frozenset(dots))


def test_power_of_two_divisors() -> None:
    assert [power_of_two_divisor(number, 16) for number in (1, 7, 24, 40, 64, 1000)] == [1, 1, 8, 8, 16, 8]
    assert power_of_two_divisor(64, 24) == 16


def test_a_padding_is_seen_as_a_branch_on_rows_and_columns() -> None:
    padded = topi.nn.pad(te.placeholder((1, 8, 8, 4), "float32"), [0, 1, 1, 0])
    sch = s_tir.Schedule(te.create_prim_func([padded.op.input_tensors[0], padded]))
    nest = view_nest(sch, sch.get_child_blocks(sch.get_sblock("root"))[0])
    assert nest is not None
    assert [nest.is_conditional_on(axis) for axis in nest.axes] == [False, True, True, False]
    assert nest.calls == 0


@pytest.mark.compiler
def test_functions_with_a_record_keep_its_schedule(
    save_convnet: SaveModel, cpu: tvm.target.Target, sample_schedules: Sample
) -> None:
    lowered = lower(import_onnx(save_convnet()), cpu)
    database = sample_schedules(extract_tasks(lowered)[:1])
    with cpu, database:
        mod = relax.transform.MetaScheduleApplyDatabase()(lowered.mod)
    scheduled = schedule_uncovered(mod, cpu)
    kept = [variable for variable, function in mod.functions.items() if scheduled[variable].same_as(function)]
    assert [variable.name_hint for variable in kept if variable.name_hint != "main"] == [
        variable.name_hint
        for variable, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and function.attrs.get("tirx.is_scheduled", False)
    ]
    assert "conv2d_maximum_minimum" in " ".join(variable.name_hint for variable in kept)


@pytest.mark.compiler
def test_constant_weights_are_packed_when_the_package_is_built(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes, weights, shape = CONVOLUTIONS["many-channels"]
    path = save_model(nodes, weights, shape)
    applied = apply_records(lower(import_onnx(path), cpu), cpu, ms.database.MemoryDatabase())
    text = applied.mod["main"].script()
    assert "_prepacked" in text


def test_weights_that_are_read_twice_are_not_packed() -> None:
    x, w = te.placeholder((16, 32), "float32", "x"), te.placeholder((32, 640), "float32", "w")
    k = te.reduce_axis((0, 32), "k")
    squares = te.compute((16, 640), lambda i, j: te.sum((x[i, k] - w[k, j]) * (x[i, k] - w[k, j]), axis=k))
    once = te.compute((16, 640), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k))
    for output, packed in ((squares, False), (once, True)):
        function = te.create_prim_func([x, w, output]).with_attr("layout_free_buffers", [1])
        text = schedule_function(function, AVX512).script()
        assert "T.vectorized" in text
        assert ("layout_rewrite_preproc" in text) == packed


PRINT_DIGEST = """
import hashlib, sys, pathlib
from tvm.s_tir import meta_schedule as ms
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.base.frozen_map import FrozenMap
attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2})
target = tvm_target("llvm", attributes, FrozenMap())
mod = apply_records(lower(import_onnx(pathlib.Path(sys.argv[1])), target), target, ms.database.MemoryDatabase()).mod
print(hashlib.sha256(mod.script().encode()).hexdigest())
"""


@pytest.mark.compiler
def test_two_processes_make_the_same_schedules(save_convnet: SaveModel) -> None:
    path = save_convnet()
    digests = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", PRINT_DIGEST, str(path)]
        environment = {"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "TVM_NUM_THREADS": "2"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout.strip().splitlines()[-1])
    assert len(digests) == 1
    assert len(digests.pop()) == len(hashlib.sha256().hexdigest())


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["digits", "silero_vad"])
@pytest.mark.parametrize("naive", [False, True])
def test_real_models_without_records(
    name: str, naive: bool, digits: Path, cpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run with the fallback shows that it is right; the other one shows whether an error is the fallback's."""
    if naive:
        monkeypatch.setattr(apply, "schedule_uncovered", lambda mod, _target: mod)
    path = digits if name == "digits" else find_network(name)
    session = onnxruntime.InferenceSession(str(path))
    random = np.random.RandomState(0)
    inputs = {
        value.name: random.uniform(0, 1, value.shape).astype("int64" if "int64" in value.type else "float32")
        for value in session.get_inputs()
    }
    lowered = lower(import_onnx(path), cpu)
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu())
    outputs = machine["main"](*(tvm.runtime.tensor(inputs[info.name]) for info in lowered.inputs))
    got = [outputs] if hasattr(outputs, "numpy") else list(outputs)
    for one, want in zip(got, session.run(None, inputs), strict=True):
        np.testing.assert_allclose(one.numpy(), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: [x := te.placeholder((0, 8), "float32"), topi.sum(x, axis=1)],
        lambda: [x := te.placeholder((8, 0), "float32"), topi.add(x, x)],
        lambda: [x := te.placeholder((16, 64), "bool"), topi.all(x, axis=1)],
        lambda: [x := te.placeholder((64, 16), "bool"), topi.any(x, axis=0)],
    ],
    ids=["sum of nothing", "add of nothing", "all", "any"],
)
def test_forms_that_no_rule_foresees_are_built_all_the_same(make: Callable[[], list[Any]]) -> None:
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    function = te.create_prim_func(make())
    tvm.compile(tvm.IRModule({"main": schedule_function(function, describe_machine(target))}), target=target)
