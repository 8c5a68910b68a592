"""Schedules of GPU functions by rule: right with threads as loops on the CPU, within limits by TVM's analysis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx_graphs
import pytest
import tvm
import tvm_ffi
from cuda_sources import write_source
from onnx_graphs import RELU, Graph, node
from tvm import te, topi
from tvm.s_tir import meta_schedule as ms
from vulkan_devices import HOST, LEAST
from window_sums import Layout, sum_windows

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen import cubin as cuda
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.prim_funcs import is_scheduled
from tvmbuild.compiler.machine.limits import GpuLimits
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.gpu import rules
from tvmbuild.compiler.schedules.gpu.products import list_products, measure, split_sum, view_product
from tvmbuild.compiler.schedules.gpu.rules import fits, list_schedules, schedule_rest
from tvmbuild.compiler.schedules.gpu.sums import add_up_alone, isolate_sum, list_short_sums, take_outputs
from tvmbuild.compiler.schedules.gpu.tiles import Product, Tile, list_tiles
from tvmbuild.compiler.tasks import Task, extract_tasks, normalised
from tvmbuild.errors import TvmbuildError
from tvmbuild.replay.traces import dump_trace, load_record

pytestmark = pytest.mark.compiler
SaveModel = Callable[..., Path]
LIMITS = GpuLimits(1024, 49152)
RANDOM = np.random.RandomState(5)


conv = partial(onnx_graphs.conv, RANDOM)
SWISH = (node("Sigmoid", "a", out="s"), node("Mul", "a", "s"))
PRODUCTS: dict[str, Graph] = {
    "pointwise": conv(24, 20, 1, (7, 7), RELU),
    "nothing-after": conv(16, 12, 1, (6, 6)),
    "read-twice": conv(16, 12, 1, (8, 8), *SWISH),
    "padded-stride-2": conv(6, 16, 3, (15, 15), RELU, strides=[2, 2], pads=[1, 1, 1, 1]),
    "one-dimension": conv(12, 8, 3, (40,), RELU, pads=[1, 1]),
    "matmul": ([node("MatMul", "x", "f")], {"f": RANDOM.uniform(-1, 1, (48, 40)).astype("float32")}, (5, 48)),
    "one-row": ([node("MatMul", "x", "f")], {"f": RANDOM.uniform(-1, 1, (48, 40)).astype("float32")}, (1, 48)),
}
SHORT_SUMS: dict[str, Graph] = {
    "depthwise": conv(20, 20, 3, (9, 9), RELU, group=20, pads=[1, 1, 1, 1]),
    "depthwise-stride-2": conv(32, 32, 5, (16, 16), *SWISH, group=32, strides=[2, 2], pads=[2, 2, 2, 2]),
    "max-pool": ([node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2])], {}, (1, 6, 15, 15)),
    "average": ([node("GlobalAveragePool", "x")], {}, (1, 300, 7, 7)),
}
OTHERS: dict[str, Graph] = {
    "softmax": ([node("Softmax", "x")], {}, (4, 50)),
    "transpose": ([node("Transpose", "x", perm=[0, 2, 1])], {}, (1, 8, 12)),
    "long-average": ([node("GlobalAveragePool", "x")], {}, (1, 8, 20, 20)),
}


@pytest.fixture
def only_task(save_model: SaveModel, gpu: tvm.target.Target) -> Callable[..., Task]:
    def make(graph: Graph, half: bool = False) -> Task:
        nodes, weights, shape = graph
        imported = import_onnx(save_model(nodes, weights, shape))
        imported = reduce_precision(imported, "fp16", "cuda") if half else imported
        tasks = extract_tasks(lower(imported, gpu))
        return max(tasks, key=lambda task: len(task.mod.script()))

    return make


def run(mod: tvm.ir.IRModule, task: Task) -> np.ndarray:
    """Run the module on fixed numbers on the CPU and return its result."""
    random = np.random.RandomState(1)
    *inputs, output = [([int(size) for size in each.ty.shape], str(each.ty.dtype)) for each in task.mod["main"].params]
    arrays = [tvm.runtime.tensor(random.uniform(-1, 1, shape).astype(kind)) for shape, kind in inputs]
    result = tvm.runtime.tensor(np.full(output[0], np.nan, output[1]))
    tvm.tirx.build(mod, target="llvm")["main"](*arrays, result)
    return np.asarray(result.numpy(), np.float64)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("graph", PRODUCTS.values(), ids=PRODUCTS)
def test_products_in_parts_are_right(only_task: Callable[..., Task], graph: Graph, half: bool) -> None:
    task = only_task(graph, half)
    sums = view_product(task.mod["main"])
    assert sums is not None
    want = run(task.mod, task)
    tiles = list_tiles(measure(sums), LIMITS, 5)
    assert len(tiles) == 5
    for tile in tiles:
        schedule = split_sum(sums, tile, bind=False)
        np.testing.assert_allclose(
            run(schedule.mod, task), want, rtol=2e-3 if half else 1e-5, atol=1e-2 if half else 1e-5
        )


@pytest.mark.parametrize(("layout", "alternate"), [("NHWC", True), ("NCHW", False)])
def test_threads_take_turns_where_steps_lie_side_by_side(layout: Layout, alternate: bool) -> None:
    mod = sum_windows("Conv", (1, 64, 5), layout=layout, precision="fp32", group=1, kernel_shape=[3, 3])
    sums = view_product(mod["main"])
    assert sums is not None
    parts = 16
    script = split_sum(sums, Tile(1, 1, 1, 1, parts)).mod.script()
    assert (f"* T.int64({parts}) + vax3_1" in script) == alternate
    assert (f"* T.int64({64 * 9 // parts}) + vax3_1" in script) != alternate


@pytest.mark.parametrize("graph", SHORT_SUMS.values(), ids=SHORT_SUMS)
def test_short_sums_are_right(only_task: Callable[..., Task], graph: Graph) -> None:
    task = only_task(graph)
    assert not list_products(task.mod["main"], tvm.target.Target("nvidia/nvidia-t4"), 1)
    assert len(list_short_sums(task.mod["main"], 3)) == 3
    want = run(task.mod, task)
    for threads in (32, 100):
        sums = isolate_sum(task.mod["main"], take_outputs)
        assert sums is not None
        schedule = add_up_alone(sums, threads, bind=False)
        np.testing.assert_allclose(run(schedule.mod, task), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("graph", OTHERS.values(), ids=OTHERS)
def test_what_is_neither_is_left_to_dlight(
    only_task: Callable[..., Task], gpu: tvm.target.Target, graph: Graph
) -> None:
    function = only_task(graph).mod["main"]
    assert not list_products(function, gpu, 1)
    assert not list_short_sums(function, 1)
    assert len(list_schedules(function, gpu, 16)) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("graph", [*PRODUCTS.values(), *SHORT_SUMS.values()], ids=[*PRODUCTS, *SHORT_SUMS])
def test_each_schedule_keeps_to_the_limits_and_is_made_again_of_its_record(
    only_task: Callable[..., Task], gpu: tvm.target.Target, graph: Graph
) -> None:
    task = only_task(graph)
    for target in (gpu, tvm_target("vulkan", FrozenMap(sorted(LEAST.items())), HOST)):
        schedules = list_schedules(task.mod["main"], target, 6)
        assert 2 <= len(schedules) <= 6
        assert len({tvm_ffi.structural_hash(each.mod, map_free_vars=True) for each in schedules}) == len(schedules)
        assert all(fits(schedule.mod, target) for schedule in schedules)
        for schedule in schedules[:2]:
            workload = ms.database.Workload(task.mod)
            record = ms.database.TuningRecord(schedule.trace, workload, [1.0], target, None)
            replayed = tvm.s_tir.Schedule(task.mod)
            load_record(dump_trace(record), workload, target).trace.apply_to_schedule(replayed, remove_postproc=False)
            assert tvm_ffi.structural_equal(replayed.mod, schedule.mod, map_free_vars=True)


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("graph", ["pointwise", "padded-stride-2", "depthwise", "max-pool"])
def test_the_kernels_compile_for_a_card(
    only_task: Callable[..., Task], gpu: tvm.target.Target, graph: str, half: bool
) -> None:
    barriers = {"pointwise": 2 if half else 4, "padded-stride-2": 1}.get(graph, 0)
    task = only_task({**PRODUCTS, **SHORT_SUMS}[graph], half)
    source = write_source(list_schedules(task.mod["main"], gpu, 1)[0].mod, gpu)
    assert source.count("__syncthreads") == barriers
    assert cuda.compile_source(source, gpu)


def test_wide_sums_fit_in_shared_memory(gpu: tvm.target.Target) -> None:
    a, b = te.placeholder((64, 128), "float64", "a"), te.placeholder((128, 196), "float64", "b")
    mod = normalised(te.create_prim_func([a, b, topi.matmul(a, b)]))
    schedules = list_schedules(mod["main"], gpu, 6)
    assert len(schedules) == 6
    assert all(fits(schedule.mod, gpu) for schedule in schedules)
    assert cuda.compile_source(write_source(schedules[0].mod, gpu), gpu)


@pytest.mark.parametrize(("axis", "stop"), [(1, 8), (2, 5), (3, 5)])
def test_what_takes_a_part_of_a_product_still_gets_a_schedule(
    save_model: SaveModel, gpu: tvm.target.Target, axis: int, stop: int
) -> None:
    nodes, weights, shape = conv(16, 12, 1, (8, 8), node("Slice", "a", "begin", "end", "axis"))
    weights |= {"begin": np.array([0]), "end": np.array([stop]), "axis": np.array([axis])}
    for task in extract_tasks(lower(import_onnx(save_model(nodes, weights, shape)), gpu)):
        schedules = list_schedules(task.mod["main"], gpu, 16)
        assert schedules
        assert cuda.compile_source(write_source(schedules[0].mod, gpu), gpu)


def test_functions_without_a_record_get_the_first_of_the_list(save_model: SaveModel, gpu: tvm.target.Target) -> None:
    nodes, weights, shape = PRODUCTS["pointwise"]
    lowered = lower(import_onnx(save_model(nodes, weights, shape)), gpu)
    (task,) = extract_tasks(lowered)
    applied = apply_records(lowered, gpu, ms.database.MemoryDatabase()).mod
    (function,) = [each for each in applied.functions.values() if isinstance(each, tvm.tirx.PrimFunc)]
    first = list_schedules(task.mod["main"], gpu, 1)[0].mod["main"]
    assert tvm_ffi.structural_equal(function.body, first.body, map_free_vars=True)
    assert "shared" in function.script()


def test_a_cpu_has_other_rules(only_task: Callable[..., Task], cpu: tvm.target.Target) -> None:
    with pytest.raises(ValueError, match="for GPUs, not for llvm"):
        list_schedules(only_task(PRODUCTS["pointwise"]).mod["main"], cpu, 1)


@pytest.mark.parametrize(
    "product",
    [
        Product(160, 49, 960),
        Product(1, 1000, 1280),
        Product(58, 2704, 58),
        Product(7, 11, 13),
        Product(5040, 5040, 5040, sum_bytes=8),
        Product(1048576, 16, 36),
    ],
)
def test_tiles_divide_the_product_and_keep_to_the_limits(product: Product) -> None:
    limits = GpuLimits(256, 8192)
    tiles = list_tiles(product, limits, 40)
    assert tiles == list_tiles(product, limits, 60)[:40]
    assert len(set(tiles)) == len(tiles)
    for tile in tiles:
        assert product.rows % tile.height == product.columns % tile.width == product.depth % tile.parts == 0
        assert 1 < tile.parts < product.depth
        assert tile.threads <= 256
        assert tile.shared_bytes(product) <= 8192
        assert product.rows // tile.height <= 65535


def test_long_sums_of_few_outputs_are_shared_by_many_threads() -> None:
    assert list_tiles(Product(160, 49, 960), LIMITS, 1)[0].parts >= 8
    assert not list_tiles(Product(16, 16, 1), LIMITS, 1)
    assert Tile(2, 4, 7, 1, 16).shared_bytes(Product(160, 49, 960)) == 16 * 8 * 7 * 4


def test_a_part_of_size_0_does_not_keep_the_rest_from_a_schedule(gpu: tvm.target.Target) -> None:
    x = te.placeholder((4, 8), name="x")
    nothing = te.compute((4, 0), lambda i, j: x[i, j + 8], name="nothing")
    rest = te.compute(x.shape, lambda i, j: x[i, j] + 1, name="rest")
    mod = normalised(te.create_prim_func([x, nothing, rest]))
    scheduled = schedule_rest(mod, gpu)["main"]
    assert is_scheduled(scheduled)
    assert "threadIdx.x" in str(scheduled)


def test_a_function_without_a_schedule_is_an_error(gpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch) -> None:
    x = te.placeholder((4, 8), name="x")
    mod = normalised(te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j] + 1)]))
    monkeypatch.setattr(rules, "list_schedules", lambda *_: [])
    with pytest.raises(TvmbuildError, match="no rule has a schedule for main on cuda"):
        schedule_rest(mod, gpu)
