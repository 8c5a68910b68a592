"""Products of float16 on tensor cores: any sizes, right with threads and fragments as loops on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from cuda_sources import write_source
from matrix_products import Shape, run, write_product
from onnx import helper
from tvm.s_tir import meta_schedule as ms
from vulkan_devices import HOST, LEAST
from window_sums import sum_windows

from tvmbuild.base.attributes import Precision
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.codegen import cubin as cuda
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.prim_funcs import allow_tf32
from tvmbuild.compiler.machine.limits import GpuLimits, staging_limits
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.gpu.matrices import view_matrices
from tvmbuild.compiler.schedules.gpu.rules import fits, list_schedules
from tvmbuild.compiler.schedules.gpu.staged_tiles import Matrices
from tvmbuild.compiler.schedules.gpu.tensor_cores import list_on_tensor_cores, multiply
from tvmbuild.compiler.schedules.gpu.warp_tiles import TILES, WarpTile, list_warp_tiles
from tvmbuild.replay.traces import dump_trace, load_record

pytestmark = pytest.mark.compiler
PRODUCTS: dict[str, tuple[Shape, Shape]] = {
    "whole tiles": ((64, 128), (128, 64)),
    "a prime of rows": ((1, 197, 64), (64, 40)),
    "nothing divides": ((37, 45), (45, 41)),
    "many": ((2, 3, 41, 32), (2, 3, 32, 24)),
    "the same weights for each": ((2, 50, 32), (32, 24)),
}
LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}


def card(arch: str) -> tvm.target.Target:
    return tvm_target("cuda", FrozenMap({"arch": arch, **LIMITS}), HOST)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("tile", TILES[:4], ids=lambda tile: f"{tile.height}x{tile.width}")
def test_tiles_need_not_divide(product: tuple[Shape, Shape], tile: WarpTile) -> None:
    mod = write_product(*product, "half")
    matrices = view_matrices(mod["main"])
    assert matrices is not None
    np.testing.assert_allclose(run(multiply(matrices, tile, bind=False).mod), run(mod), rtol=1e-3, atol=1e-3)
    assert fits(multiply(matrices, tile).mod, card("sm_90"))


@pytest.mark.parametrize("name", ["whole tiles", "a prime of rows", "many"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_the_kernels_compile_for_cards(name: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_installed_toolkit", lambda: None)  # the headers that pip installs suffice
    target = card(arch)
    (schedule,) = list_schedules(write_product(*PRODUCTS[name], "half")["main"], target, 1)
    source = write_source(schedule.mod, target)
    assert "wmma::mma_sync" in source
    # The sums go through their own memory: TVM does not wait for the operands if it shares theirs.
    assert source.count("extern __shared__") == 1
    assert cuda.compile_source(source, target)


@pytest.mark.parametrize(("arch", "waits"), [("sm_75", False), ("sm_86", True)])
def test_operands_are_on_their_way_while_others_are_multiplied(arch: str, waits: bool) -> None:
    """Asynchronous copies came with sm_80; one tile in three has them."""
    target, mod = card(arch), write_product((784, 1152), (1152, 128), "half")
    (schedule,) = list_on_tensor_cores(view_matrices(mod["main"]), target, 1)
    source = write_source(schedule.mod, target)
    assert ("cp.async.wait_group" in source) == waits
    assert cuda.compile_source(source, target)


def test_each_tile_with_operands_on_their_way_compiles() -> None:
    target, mod = card("sm_90"), write_product((197, 700), (700, 72), "half")
    product = view_matrices(mod["main"])
    assert product is not None
    for tile in TILES:
        if tile.ahead:
            source = write_source(multiply(product, tile).mod, target)
            assert f"wait_group_{tile.ahead}" in source


@pytest.mark.parametrize(("precision", "instruction"), [("tf32", "m16n8k8"), ("bf16", "m16n8k16")])
def test_float32_as_tf32_and_bfloat16_are_multiplied_too(precision: Precision, instruction: str) -> None:
    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": 1}
    mod = sum_windows("Conv", (2, 64, 28), precision=precision, **window)
    product, target = view_matrices(mod["main"]), card("sm_86")
    assert product is not None
    assert not list_on_tensor_cores(product, card("sm_75"), 1)
    (schedule,) = list_on_tensor_cores(product, target, 1)
    assert tvm_ffi.structural_equal(list_schedules(mod["main"], target, 1)[0].mod, schedule.mod, map_free_vars=True)
    if precision == "tf32":  # NumPy cannot draw bfloat16
        tile = list_warp_tiles(product.sizes, staging_limits(target.attrs), 1)[0]
        np.testing.assert_allclose(run(multiply(product, tile, bind=False).mod), run(mod), rtol=1e-4, atol=1e-4)
    source = write_source(schedule.mod, target)
    assert f"mma.sync.aligned.{instruction}" in source
    assert cuda.compile_source(source, target)


def test_few_columns_are_filled_up(gpu: tvm.target.Target) -> None:
    """A detector's heads have 12 channels; below 8, other rules are as good."""
    made = {columns: write_product((300, 128), (128, columns), "half") for columns in (4, 12)}
    assert not list_on_tensor_cores(view_matrices(made[4]["main"]), gpu, 1)
    (schedule,) = list_on_tensor_cores(view_matrices(made[12]["main"]), gpu, 1)
    assert fits(schedule.mod, gpu)


def test_networks_of_few_channels_stay_in_nchw(gpu: tvm.target.Target, save_model: Callable[..., Path]) -> None:
    """Tensor cores would idle: mnist, with 8 and 16 channels, was slower in NHWC."""
    for channels, layout in ((8, "NCHW"), (16, "NHWC")):
        weights = {"w": np.ones((channels, channels, 3, 3), np.float32)}
        model = import_onnx(save_model([helper.make_node("Conv", ["x", "w"], ["y"])], weights, (1, channels, 9, 9)))
        assert lower(reduce_precision(model, "fp16", "cuda"), gpu).layout == layout


def test_tasks_of_tf32_are_others_where_they_multiply() -> None:
    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": 1}
    wide, tf32 = (sum_windows("Conv", (2, 16, 9), precision=precision, **window) for precision in ("fp32", "tf32"))
    assert not tvm_ffi.structural_equal(wide, tf32, map_free_vars=True)
    assert not list_on_tensor_cores(view_matrices(wide["main"]), card("sm_90"), 1)
    moved = tvm.te.compute((8, 4), lambda i, j: tvm.te.placeholder((4, 8), name="x")[j, i])
    function = tvm.te.create_prim_func([moved.op.input_tensors[0], moved])
    assert allow_tf32(function).same_as(function)


def test_schedules_are_made_again_of_their_records() -> None:
    mod, target = write_product(*PRODUCTS["a prime of rows"], "half"), card("sm_90")
    workload = ms.database.Workload(mod)
    schedules = list_on_tensor_cores(view_matrices(mod["main"]), target, 2)
    assert len(schedules) == 2
    for schedule in schedules:
        record = ms.database.TuningRecord(schedule.trace, workload, [1.0], target, None)
        replayed = tvm.s_tir.Schedule(mod)
        load_record(dump_trace(record), workload, target).trace.apply_to_schedule(replayed, remove_postproc=False)
        assert tvm_ffi.structural_equal(replayed.mod, schedule.mod, map_free_vars=True)


def test_what_has_no_tensor_cores_or_no_float16_keeps_its_rule() -> None:
    half = write_product(*PRODUCTS["whole tiles"], "half")["main"]
    assert list_on_tensor_cores(view_matrices(half), card("sm_70"), 1)
    for target in (card("sm_61"), tvm_target("vulkan", FrozenMap(sorted(LEAST.items())), HOST)):
        assert not list_on_tensor_cores(view_matrices(half), target, 1)
    assert not list_on_tensor_cores(
        view_matrices(write_product(*PRODUCTS["whole tiles"], "nothing")["main"]), card("sm_90"), 1
    )
    assert not list_on_tensor_cores(view_matrices(write_product((5, 64), (64, 64), "half")["main"]), card("sm_90"), 1)


@pytest.mark.parametrize("size", [2, 4])
def test_large_products_get_large_tiles_and_small_ones_many_blocks(size: int) -> None:
    limits = GpuLimits(1024, 100 << 10, launched_bytes=100 << 10, multiprocessors=132)
    large, small = (
        list_warp_tiles(product, limits, 1)[0]
        for product in (Matrices(1, 4096, 1024, 1024, size), Matrices(1, 197, 192, 768, size))
    )
    assert large.height * large.width > 8 * small.height * small.width
    assert not list_warp_tiles(Matrices(70000, 64, 64, 64, size), limits, 9)


def test_tf32_has_the_shared_memory_that_a_launch_may_ask_for() -> None:
    product = Matrices(1, 102400, 256, 2304)
    asked = {arch: list_warp_tiles(product, staging_limits(card(arch).attrs), 1)[0] for arch in ("sm_86", "sm_90")}
    assert all(tile.height * tile.width == 128 * 128 for tile in asked.values())
    assert all(48 << 10 < tile.shared_bytes(4) <= 99 << 10 for tile in asked.values())
    less = staging_limits({**card("sm_90").attrs, "max_shared_memory_per_block": 32 << 10})
    assert less.launched_bytes == 32 << 10  # a target that wants less
    assert all(tile.shared_bytes(4) <= 32 << 10 for tile in list_warp_tiles(product, less, 99))
    mod = sum_windows("Conv", (2, 64, 160), precision="tf32", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=1)
    (schedule,) = list_schedules(mod["main"], card("sm_86"), 1)
    assert "m16n8k8" in write_source(schedule.mod, card("sm_86"))
