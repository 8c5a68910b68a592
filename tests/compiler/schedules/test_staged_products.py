"""Matrix products with their operands in shared memory: any sizes, right with threads as loops on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from cuda_sources import write_source
from matrix_products import Shape, run, write_product
from tvm import te
from tvm.s_tir import meta_schedule as ms
from vulkan_devices import HOST, LEAST

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.codegen import cubin as cuda
from tvmbuild.compiler.machine.limits import GpuLimits, staging_limits
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.schedules.gpu.matrices import view_matrices
from tvmbuild.compiler.schedules.gpu.rules import fits, list_schedules
from tvmbuild.compiler.schedules.gpu.staged import list_staged, stage
from tvmbuild.compiler.schedules.gpu.staged_tiles import Matrices, StagedTile, list_staged_tiles
from tvmbuild.compiler.tasks import normalised
from tvmbuild.replay.traces import dump_trace, load_record

pytestmark = pytest.mark.compiler
LIMITS = GpuLimits(1024, 49152)
PRODUCTS: dict[str, tuple[Shape, Shape, str]] = {
    "a prime of rows": ((1, 197, 64), (64, 40), "bias"),
    "nothing divides": ((37, 45), (45, 41), "nothing"),
    "many": ((2, 3, 41, 32), (2, 3, 32, 23), "nothing"),
    "the same weights for each": ((2, 50, 32), (32, 24), "bias"),
    "half precision": ((64, 36), (36, 64), "half"),
    "words of bytes": ((37, 45), (45, 41), "bytes"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_tiles_need_not_divide(product: tuple[Shape, Shape, str], gpu: tvm.target.Target) -> None:
    mod = write_product(*product)
    matrices = view_matrices(mod["main"])
    assert matrices is not None
    want, tiles = run(mod), list_staged_tiles(matrices.sizes, LIMITS, 2)
    assert len(tiles) == 2
    for tile in [*tiles, StagedTile(4, 4, 4, 4, 4)]:
        got = run(stage(matrices, tile, bind=False).mod)
        np.testing.assert_allclose(got, want, rtol=1e-2 if product[2] == "half" else 1e-5, atol=2e-5)
        assert fits(stage(matrices, tile).mod, gpu)


@pytest.mark.parametrize("name", ["a prime of rows", "many", "half precision", "words of bytes"])
def test_the_kernels_compile_for_cards(name: str) -> None:
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
    for arch in ("sm_75", "sm_90"):
        target = tvm_target("cuda", FrozenMap({"arch": arch, **limits}), HOST)
        (schedule,) = list_schedules(write_product(*PRODUCTS[name])["main"], target, 1)
        source = write_source(schedule.mod, target)
        assert "__shared__" in source
        assert cuda.compile_source(source, target)


def test_schedules_are_made_again_of_their_records(gpu: tvm.target.Target) -> None:
    for target in (gpu, tvm_target("vulkan", FrozenMap(sorted(LEAST.items())), HOST)):
        mod = write_product(*PRODUCTS["a prime of rows"])
        workload = ms.database.Workload(mod)
        schedules = list_staged(view_matrices(mod["main"]), target, 2)
        assert len(schedules) == 2
        for schedule in schedules:
            record = ms.database.TuningRecord(schedule.trace, workload, [1.0], target, None)
            replayed = tvm.s_tir.Schedule(mod)
            load_record(dump_trace(record), workload, target).trace.apply_to_schedule(replayed, remove_postproc=False)
            assert tvm_ffi.structural_equal(replayed.mod, schedule.mod, map_free_vars=True)


def test_few_rows_and_what_is_no_product_are_left_to_other_rules(gpu: tvm.target.Target) -> None:
    assert not list_staged(view_matrices(write_product((5, 48), (48, 40), "bias")["main"]), gpu, 1)
    x = te.placeholder((16, 16), name="x")
    k = te.reduce_axis((0, 16), "k")
    square = te.compute((16, 16), lambda i, j: te.sum(x[i, k] * x[k, j], axis=k), "square")
    assert not list_staged(view_matrices(normalised(te.create_prim_func([x, square]))["main"]), gpu, 1)
    y = te.placeholder((16, 16), name="y")
    distance = te.compute((16, 16), lambda i, j: te.sum(x[i, k] - y[k, j], axis=k), "distance")
    highest = te.compute((16, 16), lambda i, j: te.max(x[i, k] * y[k, j], axis=k), "highest")
    for each in (distance, highest):
        assert not list_staged(view_matrices(normalised(te.create_prim_func([x, y, each]))["main"]), gpu, 1)


@pytest.mark.parametrize("product", [Matrices(1, 197, 768, 192), Matrices(6, 500, 500, 64), Matrices(1, 9, 7, 5000)])
def test_tiles_keep_to_the_limits(product: Matrices) -> None:
    limits = GpuLimits(128, 16384)
    tiles = list_staged_tiles(product, limits, 40)
    assert tiles == list_staged_tiles(product, limits, 60)[:40]
    assert len(set(tiles)) == len(tiles) > 0
    for tile in tiles:
        assert tile.threads <= 128
        assert tile.shared_bytes(product) <= 16384


def test_an_architecture_tells_how_many_multiprocessors_there_are(gpu: tvm.target.Target) -> None:
    assert staging_limits(gpu.attrs).multiprocessors == 132
    other = tvm_target("vulkan", FrozenMap(sorted(LEAST.items())), HOST)
    assert staging_limits(other.attrs).multiprocessors == GpuLimits.multiprocessors
