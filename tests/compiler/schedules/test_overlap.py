"""Sizes that no good tile divides are computed in whole tiles; the last one begins early."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx, topi
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.ir.prim_funcs import list_nodes
from tvmbuild.compiler.machine.machine import Machine, describe_machine
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.schedules.cpu.overlap import allow_overlap, overlap_tiles
from tvmbuild.compiler.schedules.cpu.rules import list_schedules, schedule_function
from tvmbuild.compiler.schedules.cpu.tile_size import Tile, choose_tile
from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes
from tvmbuild.compiler.schedules.nest import view_nest
from tvmbuild.replay.traces import dump_trace, load_record

pytestmark = pytest.mark.compiler
AVX512 = Machine(64, 32, 1)
RANDOM = np.random.default_rng(7)
SIZES = [1, 2, 3, 7, 13, 19, 29, 31, 37, 50, 58, 77, 101, 127, 197]


def make_product(batch: tuple[int, ...], rows: int, sums: int, columns: int) -> tirx.PrimFunc:
    left, right = te.placeholder((*batch, rows, sums), name="x"), te.placeholder((*batch, sums, columns), name="w")
    k = te.reduce_axis((0, sums), "k")

    def product(*indices: tirx.Var) -> tirx.PrimExpr:
        *outer, row, column = indices
        first, second = (*outer, row, k), (*outer, k, column)
        return te.sum(left[first] * right[second], axis=k)

    return te.create_prim_func([left, right, topi.nn.relu(te.compute((*batch, rows, columns), product))])


def make_depthwise(size: int, channels: int) -> tirx.PrimFunc:
    data, weights = te.placeholder((1, size, size, channels)), te.placeholder((3, 3, channels, 1))
    output = topi.nn.depthwise_conv2d_nhwc(data, weights, [1, 1], [1, 1, 1, 1], [1, 1])
    return te.create_prim_func([data, weights, topi.nn.relu(output)])


def choose(function: tirx.PrimFunc, machine: Machine = AVX512) -> Tile:
    sch = s_tir.Schedule(function)
    nest = view_nest(sch, sch.get_child_blocks(sch.get_sblock("root"))[0])
    assert nest is not None
    tile = choose_tile(nest, machine)
    assert tile is not None
    return tile


def run(function: tirx.PrimFunc, *inputs: np.ndarray) -> np.ndarray:
    out = np.full([int(extent) for extent in function.params[-1].shape], np.nan, "float32")
    tensors = [tvm.runtime.tensor(each) for each in (*inputs, out)]
    mod = overlap_tiles(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}))
    tvm.compile(mod, host_target(threads=2))["main"](*tensors)
    result: np.ndarray = tensors[-1].numpy()
    return result


def draw(function: tirx.PrimFunc) -> list[np.ndarray]:
    shapes = ([int(extent) for extent in each.shape] for each in function.params[:-1])
    return [RANDOM.uniform(-1, 1, shape).astype("float32") for shape in shapes]


def is_guarded(function: tirx.PrimFunc) -> bool:
    (moved,) = overlap_tiles(tvm.IRModule({"main": function})).functions.values()
    return any(not isinstance(each.predicate, tirx.IntImm) for each in list_nodes(moved, s_tir.SBlockRealize))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
def test_products_of_any_size(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, columns = (int(random.choice(SIZES)) for _ in range(2))
    batch, sums = ((), (3,), (2, 3))[seed % 3], int(random.integers(1, 70))
    function = make_product(batch, rows, sums, columns)
    left, right = draw(function)
    scheduled = schedule_function(function, describe_machine(host_target(threads=2)))
    assert not is_guarded(scheduled)
    np.testing.assert_allclose(run(scheduled, left, right), np.maximum(left @ right, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("size", "channels"), [(13, 58), (31, 24), (7, 3), (29, 101)])
def test_depthwise_convolutions_of_any_size(size: int, channels: int) -> None:
    function = make_depthwise(size, channels)
    inputs = draw(function)
    scheduled = schedule_function(function, describe_machine(host_target(threads=2)))
    assert not is_guarded(scheduled)
    np.testing.assert_allclose(run(scheduled, *inputs), run(function, *inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.nightly
def test_without_the_pass_each_element_is_guarded_and_the_numbers_are_the_same() -> None:
    function = make_product((), 37, 20, 58)
    scheduled = schedule_function(function, AVX512)
    guards = [each.predicate for each in list_nodes(scheduled, s_tir.SBlockRealize)]
    assert any(not isinstance(each, tirx.IntImm) for each in guards)
    left, right = draw(function)
    out = tvm.runtime.tensor(np.zeros((37, 58), "float32"))
    library = tvm.compile(scheduled.with_attr("global_symbol", "main"), host_target(threads=2))
    library["main"](tvm.runtime.tensor(left), tvm.runtime.tensor(right), out)
    np.testing.assert_array_equal(out.numpy(), run(scheduled, left, right))


@pytest.mark.parametrize("columns", [13, 37])
def test_results_do_not_overwrite_operands_that_the_last_tile_reads_again(columns: int) -> None:
    data = te.placeholder((5, columns), name="x")
    inner = te.compute(data.shape, lambda *at: te.tanh(data[at]), name="inner")
    powers = te.compute(data.shape, lambda *at: te.exp(inner[at]), name="powers")
    along = te.reduce_axis((0, columns))
    total = te.compute((5,), lambda row: te.sum(powers[row, along], axis=along), name="total")
    result = te.compute(data.shape, lambda row, at: powers[row, at] / total[row], name="result")
    sch = s_tir.Schedule(te.create_prim_func([data, result]))
    block = sch.get_sblock("powers")
    _, inside = sch.split(sch.get_loops(block)[-1], [None, 8])
    sch.vectorize(inside)
    allow_overlap(sch, [block])
    target = host_target(threads=2)
    mod = run_tir_passes(tvm.IRModule({"main": sch.mod["main"].with_attr("global_symbol", "main")}), target)
    (given,) = draw(sch.mod["main"])
    got = tvm.runtime.tensor(np.zeros((5, columns), "float32"))
    tvm.compile(mod, target)["main"](tvm.runtime.tensor(given), got)
    want = np.exp(np.tanh(given))
    np.testing.assert_allclose(got.numpy(), want / want.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("rows", [49, 77, 128, 500, 1000])
def test_sizes_that_a_good_tile_divides_have_no_other(rows: int) -> None:
    tile = choose(make_product((), rows, 64, 256))
    assert not tile.overlaps


@pytest.mark.parametrize("rows", [31, 37, 127, 197, 577])
def test_primes_have_tiles_as_large_as_others_and_compute_little_twice(rows: int) -> None:
    tile = choose(make_product((), rows, 64, 256))
    assert tile.overlaps
    assert tile.rows * tile.vectors >= 8
    assert tile.computed <= 1.1 * tile.wanted


@pytest.mark.parametrize("columns", [17, 58, 197, 1001])
def test_vectors_are_full_whatever_the_columns(columns: int) -> None:
    assert choose(make_product((), 64, 64, columns)).lanes == 16


def replay(schedule: s_tir.Schedule, mod: tvm.ir.IRModule, target: tvm.target.Target) -> tirx.PrimFunc:
    """Replay a record of the schedule on the module, and return the function."""
    workload = ms.database.MemoryDatabase().commit_workload(mod)
    text = dump_trace(ms.database.TuningRecord(schedule.trace, workload, [1.0], target, None))
    again = s_tir.Schedule(mod)
    load_record(text, workload, target).trace.apply_to_schedule(again, remove_postproc=False)
    tvm.ir.assert_structural_equal(again.mod, schedule.mod)
    return again.mod["main"]


def test_every_schedule_worth_measuring_can_be_a_record_and_is_right() -> None:
    target, function = host_target(threads=2), make_product((), 37, 24, 58)
    mod = tvm.IRModule({"main": function})
    left, right = draw(function)
    found = list_schedules(mod, target, 4)
    assert len(found) == 4
    for schedule in found:
        got = run(replay(schedule, mod, target), left, right)
        np.testing.assert_allclose(got, np.maximum(left @ right, 0), rtol=1e-4, atol=1e-5)


def is_blocked(schedule: s_tir.Schedule) -> bool:
    """Return whether a sum's variable is composed of two loops."""
    return re.search(r"T\.axis\.reduce\(\d+, \w+ \* \d+ \+", schedule.mod.script()) is not None


@pytest.mark.parametrize(("batch", "rows", "sums", "columns"), [((), 40, 1536, 192), ((2,), 24, 1600, 128)])
def test_long_sums_in_blocks_are_measured_too(batch: tuple[int, ...], rows: int, sums: int, columns: int) -> None:
    target, function = host_target(threads=2), make_product(batch, rows, sums, columns)
    mod = tvm.IRModule({"main": function})
    left, right = draw(function)
    blocked = [each for each in list_schedules(mod, target, 16) if is_blocked(each)]  # a search begins with this many
    assert blocked
    for schedule in blocked[:2]:
        got = run(replay(schedule, mod, target), left, right)
        np.testing.assert_allclose(got, np.maximum(left @ right, 0), rtol=1e-4, atol=1e-3)


def test_short_sums_have_no_blocks() -> None:
    mod = tvm.IRModule({"main": make_product((), 40, 128, 192)})
    assert not any(map(is_blocked, list_schedules(mod, host_target(threads=2), 16)))
