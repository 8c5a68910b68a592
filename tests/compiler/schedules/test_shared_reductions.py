"""Reductions whose steps the threads of a block share: right on lavapipe, and never one thread for a long reduction."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from cuda_sources import write_source
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import node
from vulkan_kernels import build, lavapipe, run

from tvmbuild.compiler.codegen import cubin
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.gpu.rules import list_schedules
from tvmbuild.compiler.schedules.gpu.shared_reductions import list_shared_reductions
from tvmbuild.compiler.tasks import extract_tasks

pytestmark = pytest.mark.compiler
REDUCERS = ("ReduceMax", "ReduceMin", "ReduceProd")


def lower_graph(
    nodes: Sequence[onnx.NodeProto], weights: Mapping[str, np.ndarray], inputs: Mapping[str, Sequence[int]]
) -> tvm.IRModule:
    """Return the largest function of the network that computes y, for lavapipe."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, key) for key, value in weights.items()],
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
        tasks = extract_tasks(lower(import_onnx(path), lavapipe()))
    return max((task.mod for task in tasks), key=lambda mod: len(mod.script()))


def reduce(name: str, shape: Sequence[int], axes: Sequence[int], before: bool, after: bool) -> tvm.IRModule:
    """Return the function that reduces |x| or x; Exp follows if ``after``."""
    nodes = [node("Abs", "x", out="a")] if before else []
    nodes.append(node(name, "a" if before else "x", "axes", out="r" if after else "y", keepdims=int(after)))
    nodes += [node("Exp", "r")] if after else []
    return lower_graph(nodes, {"axes": np.array(axes)}, {"x": shape})


def normalise_by_mean(shape: Sequence[int]) -> tvm.IRModule:
    """Return the function that ends global response normalisation: x · g / (mean(g) + 1e-6) + x, of g = ‖x‖."""
    nodes = [
        node("ReduceL2", "x", "pixels", out="g"),
        node("ReduceMean", "g", "channels", out="m"),
        node("Add", "m", "small", out="d"),
        node("Div", "g", "d", out="n"),
        node("Mul", "x", "n", out="p"),
        node("Add", "p", "x"),
    ]
    weights = {"pixels": np.array([1, 2]), "channels": np.array([3]), "small": np.float32(1e-6)}
    return lower_graph(nodes, weights, {"x": shape})


def find_threads(schedule: tvm.s_tir.Schedule) -> dict[str, int]:
    """Return the extent of each thread tag; an extent of one may be narrower than 64 bits."""
    found = re.findall(r'thread_binding\((?:T\.int64\()?(\d+)\)?, thread="([\w.]+)"', schedule.mod.script())
    return {tag: int(extent) for extent, tag in found}


def check(mod: tvm.IRModule, schedule: tvm.s_tir.Schedule, sign: int = 1, atol: float = 1e-6) -> None:
    """Compare the schedule on lavapipe with the function's plain loops on the CPU, by numbers of a sign."""
    random = np.random.RandomState(1)
    shapes = [[int(size) for size in each.ty.shape] for each in mod["main"].params]
    arrays = [np.array(sign * random.uniform(0.9, 1.1, shape), "float32") for shape in shapes]
    arrays[-1][...] = np.nan
    want = [tvm.runtime.tensor(each) for each in arrays]
    tvm.tirx.build(mod, target="llvm")["main"](*want)
    np.testing.assert_allclose(run(build(schedule.mod), *arrays)[-1], want[-1].numpy(), 1e-4, atol)


@st.composite
def reductions(draw: st.DrawFn) -> tvm.IRModule:
    sizes = st.lists(st.sampled_from([1, 2, 3, 8, 31, 64, 100, 257]), min_size=1, max_size=4)
    shape = draw(sizes.filter(lambda shape: 1 < math.prod(shape) < 3e5))
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    return reduce(draw(st.sampled_from(REDUCERS)), shape, sorted(axes), draw(st.booleans()), draw(st.booleans()))


@pytest.mark.vulkan
@settings(max_examples=draws(24), deadline=None)
@given(reductions(), st.sampled_from([1, -1]))
def test_drawn_reductions_are_right(mod: tvm.IRModule, sign: int) -> None:
    """A maximum of negative numbers shows threads without an element that start from zero."""
    for schedule in list_schedules(mod["main"], lavapipe(), 2):
        check(mod, schedule, sign)


CASES = {
    "rows": ((1, 64, 1000), (2,), 64),
    "columns": ((1, 1000, 70), (1,), 9),
    "everything": ((300, 91), (0, 1), 1),
}


@pytest.mark.vulkan
@pytest.mark.parametrize("after", [False, True], ids=["alone", "with-epilogue"])
@pytest.mark.parametrize(("shape", "axes", "blocks"), CASES.values(), ids=CASES)
def test_a_block_of_threads_shares_a_long_maximum(
    shape: tuple[int, ...], axes: tuple[int, ...], blocks: int, after: bool
) -> None:
    mod = reduce("ReduceMax", shape, axes, before=True, after=after)
    (schedule,) = list_shared_reductions(mod["main"])
    extents = find_threads(schedule)
    assert extents.pop("blockIdx.x", 1) == blocks
    assert math.prod(extents.values()) == 256
    check(mod, schedule)


@pytest.mark.vulkan
@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"])
@pytest.mark.parametrize("shape", [(5000,), (3, 70, 5), (7,), (1, 2), (1, 1), (1,)])
@pytest.mark.parametrize("keep", [0, 1])
def test_one_kernel_reduces_to_a_number_and_goes_on(name: str, shape: tuple[int, ...], keep: int) -> None:
    """DLight would launch a kernel for each element, and put what follows a single step into the reduction."""
    nodes = [node("Abs", "x", out="a"), node(name, "a", out="r", keepdims=keep), node("Div", "r", "three")]
    mod = lower_graph(nodes, {"three": np.float32(3)}, {"x": shape})
    (schedule,) = list_schedules(mod["main"], lavapipe(), 1)
    assert math.prod(find_threads(schedule).values()) >= min(math.prod(shape) // 2, 64)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        assert schedule.get(schedule.get_loops(block)[0]).thread_binding is not None
    check(mod, schedule)


@pytest.mark.vulkan
@pytest.mark.parametrize("after", [False, True], ids=["alone", "with-epilogue"])
@pytest.mark.parametrize(("channels", "blocks"), [(70, 9), (3, 1), (9000, 282)])
def test_a_block_of_threads_shares_long_sums_of_neighbours(channels: int, blocks: int, after: bool) -> None:
    mod = reduce("ReduceMean", (1, 25, 16, channels), (1, 2), before=True, after=after)
    (schedule,) = list_shared_reductions(mod["main"])
    extents = find_threads(schedule)
    assert extents.pop("blockIdx.x", 1) == blocks
    assert math.prod(extents.values()) == 512
    check(mod, schedule)


def subtract_means(batch: int, size: int, channels: int) -> tvm.IRModule:
    """Return the function that subtracts each channel's mean over the pixels of NHWC: instance normalisation."""
    nodes = [node("ReduceMean", "x", "pixels", out="m"), node("Sub", "x", "m")]
    return lower_graph(nodes, {"pixels": np.array([1, 2])}, {"x": (batch, size, size, channels)})


@pytest.mark.vulkan
@settings(max_examples=draws(10), deadline=None)
@given(st.integers(1, 3), st.sampled_from([6, 16, 40, 65]), st.sampled_from([1, 3, 8, 24, 32, 33, 96]))
def test_means_of_channels_are_right(batch: int, size: int, channels: int) -> None:
    mod = subtract_means(batch, size, channels)
    for schedule in list_schedules(mod["main"], lavapipe(), 2):
        check(mod, schedule, atol=1e-5)  # sums of up to 4,225 numbers near 1


@pytest.mark.parametrize(
    ("batch", "size", "channels", "threads"),
    [(2, 40, 32, [(8, 128), (8, 32)]), (1, 40, 4, [(4, 256), (4, 64)]), (2, 20, 96, [(8, 32)])],
)
def test_many_threads_share_long_means_of_channels(
    batch: int, size: int, channels: int, threads: list[tuple[int, int]]
) -> None:
    schedules = list_shared_reductions(subtract_means(batch, size, channels)["main"])
    found = [find_threads(schedule) for schedule in schedules]
    assert [(each["threadIdx.x"], each["threadIdx.y"]) for each in found] == threads
    assert [each["blockIdx.x"] for each in found] == [batch * -(-channels // width) for width, _ in threads]


def squeeze_and_excite(channels: int, squeezed: int, size: int, *, channels_last: bool = False) -> tvm.IRModule:
    """Return the function that multiplies a picture by sigmoid(a product of matrices), a factor for each channel."""
    shape: tuple[int, ...]
    if channels_last:
        product, shape = node("MatMul", "s", "w", out="a"), (squeezed, channels)
        inputs = {"s": (1, 1, 1, squeezed), "x": (1, size, size, channels)}
    else:
        product, shape = node("Conv", "s", "w", out="a"), (channels, squeezed, 1, 1)
        inputs = {"s": (1, squeezed, 1, 1), "x": (1, channels, size, size)}
    nodes = [product, node("Sigmoid", "a", out="g"), node("Mul", "g", "x")]
    return lower_graph(nodes, {"w": np.random.RandomState(0).uniform(-1, 1, shape).astype("float32")}, inputs)


BROADCASTS = {
    "a-mean": (partial(normalise_by_mean, (1, 28, 28, 40)), (1, 8)),
    "channels-first": (partial(squeeze_and_excite, 24, 70, 17), (24, 1)),
    "several-blocks-a-channel": (partial(squeeze_and_excite, 3, 300, 70), (3, 2)),
    "channels-last": (partial(squeeze_and_excite, 70, 33, 19, channels_last=True), (9, 3)),
}


@pytest.mark.vulkan
@pytest.mark.parametrize(("make", "blocks"), BROADCASTS.values(), ids=BROADCASTS)
def test_each_block_computes_the_results_that_it_reads(
    make: Callable[[], tvm.IRModule], blocks: tuple[int, int]
) -> None:
    mod = make()
    (schedule,) = list_shared_reductions(mod["main"])
    extents = find_threads(schedule)
    assert (extents["blockIdx.x"], extents["blockIdx.y"]) == blocks
    check(mod, schedule)


def test_results_of_two_last_axes_are_left_to_dlight() -> None:
    nodes = [node("ReduceMean", "x", "axes", out="m"), node("Sub", "x", "m")]
    mod = lower_graph(nodes, {"axes": np.array([1])}, {"x": (1, 64, 14, 14)})
    assert list_shared_reductions(mod["main"]) == []


def test_dlight_keeps_sums_of_rows_and_short_ones_and_one_thread_keeps_a_short_reduction() -> None:
    assert list_shared_reductions(reduce("ReduceSum", (64, 1000), (1,), before=True, after=True)["main"]) == []
    assert list_shared_reductions(reduce("ReduceSum", (256, 64), (0,), before=True, after=True)["main"]) == []
    assert list_shared_reductions(reduce("ReduceMax", (64, 30), (1,), before=True, after=False)["main"]) == []
    assert list_shared_reductions(normalise_by_mean((1, 2, 2, 40))["main"]) == []


def test_a_card_gets_the_kernels(gpu: tvm.target.Target) -> None:
    for mod in (
        reduce("ReduceMax", (9, 999), (0, 1), before=True, after=True),
        reduce("ReduceMin", (1, 999, 64), (1,), before=True, after=True),
        *(make() for make, _ in BROADCASTS.values()),
    ):
        (schedule,) = list_schedules(mod["main"], gpu, 1)
        assert cubin.compile_source(write_source(schedule.mod, gpu), gpu)
