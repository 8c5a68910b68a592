"""Integer products by rule: none is left to a plain loop, and records of them can be replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from quantised_graphs import Network
from spilled_sums import count_sums
from tvm import tirx
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.prim_funcs import list_blocks, list_nodes
from tvmbuild.compiler.machine.dot_instructions import ANNOTATION, find_instruction
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.schedules.cpu.rules import list_schedules, sums_without_tiles
from tvmbuild.compiler.tasks import extract_tasks
from tvmbuild.preparing.reference import run_onnx
from tvmbuild.records.schedule import Schedule
from tvmbuild.replay.database import database_from_schedule
from tvmbuild.replay.traces import dump_trace
from tvmbuild.tuning.space import make_space

pytestmark = pytest.mark.compiler
SHAPES: dict[str, dict[str, Any]] = {
    "3x3": {"weights": (32, 16, 3, 3), "size": (14, 14), "pads": [1, 1, 1, 1]},
    "picture": {"weights": (24, 3, 3, 3), "size": (33, 31), "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "pointwise": {"weights": (58, 37, 1, 1), "size": (7, 7)},
    "one pixel": {"weights": (16, 4, 1, 1), "size": (1, 1)},
    "one row": {"weights": (64, 64, 1, 3), "size": (1, 31)},
    "groups": {"weights": (24, 8, 3, 3), "size": (9, 8), "pads": [1, 1, 1, 1], "group": 3},
    "odd groups": {"weights": (90, 3, 3, 3), "size": (9, 8), "group": 5},
    "depthwise": {"weights": (20, 1, 5, 5), "size": (11, 8), "pads": [2, 2, 2, 2], "group": 20},
}


PRODUCTS = {"matrices": (49, 64, 32), "one row": (1, 50, 10)}


def describe(cpu: str) -> tvm.target.Target:
    triple = "aarch64-linux-gnu" if cpu.startswith(("cortex", "neoverse")) else "x86_64-linux-gnu"
    return tvm_target("llvm", FrozenMap({"mcpu": cpu, "mtriple": triple, "num-cores": 2}), FrozenMap())


def lower_for(cpu: str, name: str) -> tuple[Lowered, tvm.target.Target]:
    given = dict(SHAPES[name])
    shape, size = given.pop("weights"), given.pop("size")
    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh(shape)
    summed = net.add("Conv", [net.round("x", 0.02, 131), weights, net.offset(shape[0], scales, 0.02)], **given)
    model = net.finish(net.round(summed, 0.1, 120), (1, shape[1] * given.get("group", 1), *size))
    target = describe(cpu)
    return lower(import_onnx(model), target), target


CPUS = ("cascadelake", "alderlake", "x86-64-v4", "x86-64-v3", "x86-64", "neoverse-n2", "cortex-a76", "cortex-a72")


@pytest.mark.sampled(16)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", SHAPES)
def test_every_sum_has_a_tile(name: str, cpu: str) -> None:
    lowered, target = lower_for(cpu, name)
    assert lowered.notes == ()
    machine = describe_machine(target)
    tasks = extract_tasks(lowered)
    assert any("conv2d" in task.name for task in tasks)
    assert [task.name for task in tasks if sums_without_tiles(task.mod["main"], machine)] == []


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_matrices_have_it_too(name: str, cpu: str) -> None:
    rows, depth, columns = PRODUCTS[name]
    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh((depth, columns), axis=1)
    made = net.add("Gemm", [net.round("x", 0.02, 131), weights, net.offset(columns, scales, 0.02)])
    target = describe(cpu)
    lowered = lower(import_onnx(net.finish(net.round(made, 0.1, 120), (rows, depth))), target)
    (task,) = (each for each in extract_tasks(lowered) if "matmul" in each.name)
    instruction = find_instruction(target)
    annotations = [block.annotations for block in list_blocks(task.mod["main"])]
    named = [str(each[ANNOTATION]).rpartition("_")[0] for each in annotations if ANNOTATION in each]
    assert named == ([] if instruction is None else [instruction.name])
    assert not sums_without_tiles(task.mod["main"], describe_machine(target))


def make_dynamic(operator: str, weights: np.ndarray, zero: int) -> bytes:
    """Return a product as onnxruntime's quantize_dynamic writes it: its data are quantised at run time."""
    shape = (1, weights.shape[1], 9, 9) if operator == "ConvInteger" else (1, 33, weights.shape[0])
    pads = {"pads": [1, 0, 1, 2]} if operator == "ConvInteger" else {}
    bias = np.linspace(-2, 3, weights.shape[0], dtype=np.float32)
    constants = {"w": weights, "z": np.array(zero, weights.dtype), "s": np.float32(0.003), "b": bias}
    constants["channels"] = np.array([1, -1, 1, 1])
    biased = [  # in the form of ONNX Runtime's quantiser
        helper.make_node("Div", ["b", "both"], ["steps"]),
        helper.make_node("Floor", ["steps"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["integers"], to=TensorProto.INT32),
        helper.make_node("Reshape", ["integers", "channels"], ["spread"]),
        helper.make_node("Add", ["sums", "spread"], ["biased"]),
    ]
    last = "biased" if operator == "ConvInteger" else "sums"
    graph = helper.make_graph(
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["data", "scale", "zero"]),
            helper.make_node(operator, ["data", "w", "zero", "z"], ["sums"], **pads),
            helper.make_node("Mul", ["scale", "s"], ["both"]),
            *(biased if last == "biased" else []),
            helper.make_node("Cast", [last], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["floats", "both"], ["y"]),
        ],
        "dynamic",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())


DYNAMIC: dict[str, tuple[str, tuple[int, ...], str, int]] = {
    "product": ("MatMulInteger", (64, 40), "int8", 0),
    "product of uint8": ("MatMulInteger", (50, 40), "uint8", 117),
    "convolution": ("ConvInteger", (24, 8, 3, 3), "int8", 0),
    "convolution of uint8": ("ConvInteger", (24, 8, 1, 1), "uint8", 128),
    "convolution of uint8 with a rest": ("ConvInteger", (24, 8, 3, 3), "uint8", 117),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cpu", ["znver4", "x86-64-v3", "cortex-a76"])
@pytest.mark.parametrize("name", DYNAMIC)
def test_data_that_are_rounded_as_they_come_are_multiplied_as_bytes(name: str, cpu: str) -> None:
    """As int32 with their zero points subtracted, they took a hundred times as long."""
    operator, shape, kind, zero = DYNAMIC[name]
    limits = np.iinfo(kind)
    weights = np.random.default_rng(0).integers(limits.min, limits.max, shape, kind, endpoint=True)
    model, target = make_dynamic(operator, weights, zero), describe(cpu)
    lowered = lower(import_onnx(model), target)
    tasks, machine = extract_tasks(lowered), describe_machine(target)
    assert any(ANNOTATION in block.annotations for task in tasks for block in list_blocks(task.mod["main"]))
    assert [task.name for task in tasks if sums_without_tiles(task.mod["main"], machine)] == []
    x = np.random.default_rng(1).normal(0, 1, lowered.inputs[0].shape).astype(np.float32)
    (want,) = run_onnx(model, {"x": x}, "it").values()
    host = host_target(threads=1)
    (got,) = build_here(lowered if cpu == "cortex-a76" else lower(import_onnx(model), host), host)({"x": x}).values()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("cpu", ["cascadelake", "x86-64-v3", "cortex-a76", "cortex-a72"])
def test_records_of_schedules_by_rule_are_replayed(cpu: str) -> None:
    lowered, target = lower_for(cpu, "3x3")
    (task,) = (each for each in extract_tasks(lowered) if "conv2d" in each.name)
    schedules = list_schedules(task.mod, target, 3)
    assert len(schedules) == 3
    for sch in schedules:
        workload = ms.database.MemoryDatabase().commit_workload(task.mod)
        arguments = ms.arg_info.ArgInfo.from_entry_func(task.mod)
        trace = dump_trace(ms.database.TuningRecord(sch.trace, workload, [1e-3], target, arguments))
        assert '"dot_' in trace
        database = database_from_schedule(Schedule(FrozenMap({task.key: trace})), extract_tasks(lowered), target)
        assert apply_records(lowered, target, database).coverage.covered.keys() == {task.key}


@pytest.mark.parametrize("name", ["3x3", "pointwise", "depthwise", "product"])
def test_a_search_lays_out_no_constant_that_sums_begin_with(name: str) -> None:
    """The search looks for each constant among the blocks' reads, and ends if one is missing."""
    target = describe("znver4")
    if name == "product":
        net = Network(np.random.RandomState(0))
        weights, scales = net.weigh((64, 48), axis=1)
        made = net.add("Gemm", [net.round("x", 0.02, 90), weights, net.offset(48, scales, 0.02)])
        lowered = lower(import_onnx(net.finish(net.round(made, 0.1, 120), (8, 64))), target)
    else:
        lowered, _ = lower_for("znver4", name)
    (task,) = (each for each in extract_tasks(lowered) if "conv2d" in each.name or "matmul" in each.name)
    context = ms.TuneContext(
        mod=task.mod, target=target, space_generator=make_space(target), rand_state=1, num_threads=1
    )
    spaces = list(context.generate_design_space())
    assert spaces
    passed = [all(each.apply(sch) for each in context.space_generator.postprocs) for sch in spaces]
    assert any(passed)


@pytest.mark.parametrize("cpu", ["cortex-a76", "cortex-a72"])
@pytest.mark.parametrize("name", ["picture", "depthwise"])
def test_the_module_of_another_machine_is_computed_here(name: str, cpu: str) -> None:
    """The command validate does this, without the other machine's instruction, at which LLVM ends the process."""
    lowered, _ = lower_for(cpu, name)
    own, _ = lower_for("x86-64", name)
    x = {"x": np.random.RandomState(1).uniform(-3, 3, lowered.inputs[0].shape).astype(np.float32)}
    got, want = (build_here(each, host_target(threads=2))(x)["y"] for each in (lowered, own))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("cpu", ["znver4", "neoverse-n2"])
def test_what_follows_a_residual_sum_is_fused_as_where_bytes_are_not_looked_up(cpu: str) -> None:
    net = Network(np.random.RandomState(0))
    first = net.round("x", 0.02, 131)
    weights, scales = net.weigh((16, 16, 1, 1))
    made = net.round(net.add("Conv", [first, weights, net.offset(16, scales, 0.02)]), 0.1, 120)
    model = net.finish(net.round(net.add("Add", [first, made]), 0.15, 118), (1, 16, 8, 8))
    with_tables, without = (lower(import_onnx(model), describe(each)) for each in (cpu, "x86-64-v3"))
    names = [[task.name for task in extract_tasks(each)] for each in (with_tables, without)]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("channels", "size", "by_pixels"), [((384, 64), 14, True), ((160, 960), 7, False), ((960, 320), 14, False)]
)
def test_threads_share_pixels_where_these_are_more_than_the_weights(
    channels: tuple[int, int], size: int, *, by_pixels: bool
) -> None:
    """A thread reads the rows that it wrote itself in the function before."""
    inputs, outputs = channels
    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh((outputs, inputs, 1, 1))
    made = net.add("Conv", [net.round("x", 0.02, 131), weights, net.offset(outputs, scales, 0.02)])
    target = describe("znver4")
    lowered = lower(import_onnx(net.finish(net.round(made, 0.1, 120), (1, inputs, size, size))), target)
    (task,) = (each for each in extract_tasks(lowered) if "conv2d" in each.name)
    (schedule, *_) = list_schedules(task.mod, target, 1)
    loops = list_nodes(schedule.mod["main"], tirx.For)
    divided = [int(loop.extent) for loop in loops if loop.kind == tirx.ForKind.PARALLEL]
    assert (divided == [2]) is by_pixels
    assert divided


@pytest.mark.parametrize("size", [(8, 416), (8, 320)])
def test_a_picture_s_convolution_has_registers_for_its_pixels(size: tuple[int, int]) -> None:
    """LLVM keeps pixels that several sums read; when sums had taken all registers, they went to memory at each step."""
    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh((16, 3, 3, 3))
    target = describe("znver4")
    made = net.add("Conv", [net.round("x", 0.02, 131), weights, net.offset(16, scales, 0.02)], pads=[1, 1, 1, 1])
    lowered = lower(import_onnx(net.finish(net.round(made, 0.1, 120), (1, 3, *size))), target)
    (task,) = (each for each in extract_tasks(lowered) if "conv2d" in each.name)
    sums, written = count_sums(task.mod, target)
    assert sums >= 24
    assert written < sums // 4
