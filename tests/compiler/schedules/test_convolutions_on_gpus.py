"""Convolutions as matrix products, short sums in vectors: right in both layouts, with threads as loops on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import tvm
import tvm_ffi
from cuda_sources import write_source
from matrix_products import run
from onnx import TensorProto, helper, numpy_helper
from tvm import te
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.attributes import Precision
from tvmbuild.compiler.codegen import cubin as cuda
from tvmbuild.compiler.importing.importer import import_model, import_onnx
from tvmbuild.compiler.machine.limits import staging_limits
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.gpu.matrices import view_matrices
from tvmbuild.compiler.schedules.gpu.rules import fits, list_schedules
from tvmbuild.compiler.schedules.gpu.staged import list_staged, stage
from tvmbuild.compiler.schedules.gpu.staged_tiles import StagedTile, list_staged_tiles
from tvmbuild.compiler.schedules.gpu.sums import add_up_alone, count_together, isolate_sum, take_outputs
from tvmbuild.compiler.schedules.gpu.tensor_cores import list_on_tensor_cores, multiply
from tvmbuild.compiler.schedules.gpu.warp_tiles import TILES, list_warp_tiles
from tvmbuild.compiler.tasks import extract_tasks, normalised
from tvmbuild.replay.traces import dump_trace, load_record

pytestmark = pytest.mark.compiler
Layout = Literal["NCHW", "NHWC"]
Sizes = tuple[int, int, int, int]
"""The number of images, the channels in and out, and the number of rows, which is that of columns."""
SaveModel = Callable[..., Path]
Convolve = Callable[..., tvm.IRModule]
LAYOUTS: tuple[Layout, ...] = ("NCHW", "NHWC")
SIZES: dict[str, Sizes] = {
    "whole vectors": (1, 32, 48, 8),
    "a batch": (3, 24, 40, 6),
    "seven by seven": (2, 40, 24, 7),
    "odd channels": (2, 29, 58, 5),
    "after a global pooling": (24, 32, 48, 1),
}
NIGHTLY = {"whole vectors", "seven by seven"}
DRAWN = [
    pytest.param(sizes, id=name, marks=[pytest.mark.nightly] if name in NIGHTLY else [])
    for name, sizes in SIZES.items()
]


@pytest.fixture
def convolve(save_model: SaveModel, gpu: tvm.target.Target) -> Convolve:
    """Return a maker of the function for a convolution with a bias and a ReLU."""

    def make(layout: Layout, precision: Precision, sizes: Sizes, **attributes: Any) -> tvm.IRModule:
        batch, channels, out, size = sizes
        taken, side = channels // attributes.get("group", 1), attributes.get("kernel_shape", [1])[0]
        weights = np.random.RandomState(0).uniform(-1, 1, (out, taken, side, side)).astype(np.float32)
        constants = {"w": weights, "b": np.linspace(-1, 1, out, dtype=np.float32)}
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes), helper.make_node("Relu", ["c"], ["y"])]
        model = import_onnx(save_model(nodes, constants, (batch, channels, size, size)))
        narrow = model if precision == "fp32" else reduce_precision(model, precision, "cuda")
        tasks = extract_tasks(lower(narrow, gpu, layout))
        return next(task.mod for task in tasks if "conv2d" in task.name)

    return make


def count_threads(mod: tvm.IRModule) -> dict[str, set[int]]:
    """Return the extents of thread and block axes, by axis: a kernel has one of each."""
    found: dict[str, set[int]] = {}

    def on_loop(loop: Any) -> None:
        if loop.thread_binding is not None:
            found.setdefault(str(loop.thread_binding.thread_tag), set()).add(int(loop.extent))

    tvm_ffi.structural_walk(mod["main"].body, (tvm.tirx.For, on_loop), order="post")
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sizes", DRAWN)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_staged_ones_are_right(convolve: Convolve, layout: Layout, sizes: Sizes, gpu: tvm.target.Target) -> None:
    mod = convolve(layout, "fp32", sizes)
    product = view_matrices(mod["main"])
    assert product is not None
    assert product.sizes.outer * product.sizes.rows * product.sizes.columns == sizes[0] * sizes[2] * sizes[3] ** 2
    want = run(mod)
    for tile in [*list_staged_tiles(product.sizes, staging_limits(gpu.attrs), 2), StagedTile(4, 4, 4, 4, 4)]:
        np.testing.assert_allclose(run(stage(product, tile, bind=False).mod), want, rtol=1e-5, atol=2e-5)
        bound = stage(product, tile).mod
        assert fits(bound, gpu)
        assert count_threads(bound)["threadIdx.x"] == {tile.threads}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sizes", DRAWN)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_those_on_tensor_cores_are_right(
    convolve: Convolve, layout: Layout, sizes: Sizes, gpu: tvm.target.Target
) -> None:
    mod = convolve(layout, "fp16", sizes)
    product = view_matrices(mod["main"])
    assert product is not None
    if min(product.runs) == 1:  # one pixel in NCHW
        assert not list_on_tensor_cores(view_matrices(mod["main"]), gpu, 1)
        return
    want = run(mod)
    for tile in TILES[:3]:
        got = run(multiply(product, tile, bind=False).mod)
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=4e-3)
        bound = multiply(product, tile).mod
        assert fits(bound, gpu)
        assert count_threads(bound)["threadIdx.y"] == {tile.warps}


@pytest.mark.parametrize(("precision", "make"), [("fp32", list_staged), ("fp16", list_on_tensor_cores)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_their_schedules_are_made_again_of_their_records(
    convolve: Convolve, layout: Layout, precision: Precision, make: Callable[..., Any], gpu: tvm.target.Target
) -> None:
    mod = convolve(layout, precision, SIZES["a batch"])
    (schedule,) = make(view_matrices(mod["main"]), gpu, 1)
    workload = ms.database.Workload(mod)
    record = ms.database.TuningRecord(schedule.trace, workload, [1.0], gpu, None)
    replayed = tvm.s_tir.Schedule(mod)
    load_record(dump_trace(record), workload, gpu).trace.apply_to_schedule(replayed, remove_postproc=False)
    assert tvm_ffi.structural_equal(replayed.mod, schedule.mod, map_free_vars=True)


WINDOWS: dict[str, tuple[Sizes, dict[str, Any]]] = {
    "three by three": ((1, 32, 48, 8), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "steps of two": ((2, 24, 40, 9), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "one by one in steps": ((2, 16, 24, 9), {"strides": [2, 2]}),
    "apart": ((1, 16, 20, 11), {"kernel_shape": [3, 3], "dilations": [2, 2], "pads": [2, 2, 2, 2]}),
    "long and unpadded": ((1, 20, 17, 9), {"kernel_shape": [5, 5]}),
    "a picture": ((2, 3, 32, 15), {"kernel_shape": [7, 7], "strides": [2, 2], "pads": [3, 3, 3, 3]}),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_windows_see_is_a_matrix(
    convolve: Convolve,
    layout: Layout,
    precision: Precision,
    windows: tuple[Sizes, dict[str, Any]],
    gpu: tvm.target.Target,
) -> None:
    sizes, attributes = windows
    mod = convolve(layout, precision, sizes, **attributes)
    product = view_matrices(mod["main"])
    assert product is not None
    assert product.is_unfolded
    want = run(mod)
    close = partial(np.testing.assert_allclose, rtol=2e-3, atol=1e-2 if precision == "fp16" else 5e-5)
    for tile in list_staged_tiles(product.sizes, staging_limits(gpu.attrs), 2):
        close(run(stage(product, tile, bind=False).mod), want)
        assert fits(stage(product, tile).mod, gpu)
    for warps in TILES[:2] if list_on_tensor_cores(product, gpu, 1) else ():
        close(run(multiply(product, warps, bind=False).mod), want)
        assert fits(multiply(product, warps).mod, gpu)


def test_windows_are_multiplied_by_tensor_cores_where_channels_are_read_in_vectors(
    convolve: Convolve, gpu: tvm.target.Target
) -> None:
    attributes: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    product = view_matrices(convolve("NHWC", "fp16", (1, 32, 48, 8), **attributes)["main"])
    assert product is not None
    assert product.runs == (8, 48)
    assert list_on_tensor_cores(product, gpu, 1)
    odd = view_matrices(convolve("NHWC", "fp16", (1, 30, 48, 8), **attributes)["main"])
    assert odd is not None
    assert odd.runs[0] == 1
    assert odd.sizes.gathered == (True, False)
    assert not list_on_tensor_cores(odd, gpu, 1)
    assert list_staged(odd, gpu, 1) == []  # 48 x 64 outputs are computed in parts
    assert list_schedules(convolve("NHWC", "fp16", (1, 30, 48, 8), **attributes)["main"], gpu, 1)


def test_a_tile_that_a_block_cannot_hold_is_none(convolve: Convolve, gpu: tvm.target.Target) -> None:
    """The first tile is chosen without looking at the others: if it did not fit, a slower rule would follow."""
    product = view_matrices(convolve("NHWC", "fp16", (8, 64, 384, 28))["main"])
    assert product is not None
    for tile in list_warp_tiles(product.sizes, staging_limits(gpu.attrs), len(TILES)):
        assert fits(multiply(product, tile).mod, gpu)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_short_sums_in_vectors_are_right(convolve: Convolve, precision: Precision, gpu: tvm.target.Target) -> None:
    mod = convolve("NHWC", precision, (1, 64, 64, 66), group=64, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    sums = isolate_sum(mod["main"], take_outputs)
    assert sums is not None
    assert count_together(sums) == 4
    got = run(add_up_alone(sums, 128, 4, bind=False).mod)
    np.testing.assert_allclose(got, run(mod), rtol=2e-3 if precision == "fp16" else 1e-5, atol=1e-5)
    (schedule,) = list_schedules(mod["main"], gpu, 1)
    assert "T.vectorized(T.int64(4))" in schedule.mod.script()


def test_what_lies_apart_is_summed_one_by_one(convolve: Convolve) -> None:
    mod = convolve("NCHW", "fp32", (1, 64, 64, 66), group=64, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    sums = isolate_sum(mod["main"], take_outputs)
    assert sums is not None
    assert count_together(sums) == 1


@pytest.mark.parametrize(("kind", "shape"), [("MatMul", (64, 64)), ("Conv", (64, 1, 1, 1))], ids=["matrix", "short"])
def test_truth_values_are_written_one_by_one(kind: str, shape: tuple[int, ...], gpu: tvm.target.Target) -> None:
    """In CUDA, TVM's vectors of four bools are twice as wide as its arrays of them."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 64, 64])
    y = helper.make_tensor_value_info("y", TensorProto.BOOL, [1, 64, 64, 64])
    weights = np.random.RandomState(0).uniform(-1, 1, shape).astype(np.float32)
    kept = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.zeros(1, np.float32), "zero")]
    made = helper.make_node(kind, ["x", "w"], ["c"], **({"group": 64} if kind == "Conv" else {}))
    graph = helper.make_graph([made, helper.make_node("Greater", ["c", "zero"], ["y"])], "truth", [x], [y], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    imported = import_model(model, "truth")
    narrow = reduce_precision(imported, "fp16", "cuda") if kind == "MatMul" else imported
    (mod,) = (task.mod for task in extract_tasks(lower(narrow, gpu)) if 'bool")' in task.mod.script())
    (schedule,) = list_schedules(mod["main"], gpu, 1)
    source = write_source(schedule.mod, gpu)
    assert "ushort4*" not in source
    assert cuda.compile_source(source, gpu)


def test_wide_numbers_keep_their_short_sums(gpu: tvm.target.Target) -> None:
    int64 = [tvm.tirx.IntImm("int64", each) for each in (1024, 9, 64)]
    x, k = te.placeholder(int64, "float64", "x"), te.reduce_axis((int64[0] - int64[0], int64[1]), "k")
    mod = normalised(
        te.create_prim_func([x, te.compute([int64[0], int64[2]], lambda i, j: te.sum(x[i, k, j], axis=k))])
    )
    sums = isolate_sum(mod["main"], take_outputs)
    assert sums is not None
    assert sums.beside == 2
    assert fits(list_schedules(mod["main"], gpu, 1)[0].mod, gpu)
