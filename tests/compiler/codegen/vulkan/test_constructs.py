"""Statements and memory: guards, loops, registers, barriers, threads, vectors, aliases, on lavapipe."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import tirx as script
from vulkan_kernels import build, build_as_written, generate, run, write_kernel

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.host import find_device

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
THREADS = [("blockIdx.x", 4), ("threadIdx.x", 16)]
COUNT = 64
X = np.arange(COUNT, dtype=np.float32)
LINE = ((COUNT,), "float32")


def compute(body: Any, *arrays: np.ndarray, threads: Any = THREADS, raw: bool = True, noalias: bool = True) -> Any:
    """Run the kernel and return the last array."""
    mod = write_kernel([(each.shape, str(each.dtype)) for each in arrays], threads, body, noalias)
    return run((build_as_written if raw else build)(mod), *arrays)[-1]


@pytest.mark.parametrize("raw", [True, False])
def test_guarded_loads_stay_inside(raw: bool) -> None:
    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        i = block * 16 + thread
        far = tirx.if_then_else(i >= 3, tirx.if_then_else(i < 60, x[i * 1000 - 3000 - (i - 3) * 999], 7.0), -1.0)
        script.buffer_store(y, far, [i])

    want = np.where(X < 3, -1, np.where(X < 60, X - 3, 7))
    np.testing.assert_array_equal(compute(body, X, np.zeros_like(X), raw=raw), want)


def test_what_a_condition_guards_may_be_undefined_elsewhere() -> None:
    """The condition guards loads beyond the end, after `or` too, and divisions by 0."""

    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        i = block * 16 + thread
        divisor = i - 7
        script.buffer_store(y, tirx.if_then_else(divisor != 0, x[i] // divisor + x[i] % divisor, -1), [i])
        far = tirx.Or(i > 50, x[i * 2000000 - i * 1999999] == 20)
        script.buffer_store(y, tirx.Select(far, 1000, y[i]), [i])

    x = np.arange(COUNT, dtype=np.int32)
    sums = [-1 if i == 7 else i // (i - 7) + i % (i - 7) for i in range(COUNT)]
    want = np.where((x > 50) | (x == 20), 1000, sums)
    np.testing.assert_array_equal(compute(body, x, np.zeros_like(x)), want)


def test_loops_with_steps_without_turns_and_of_dynamic_extents() -> None:
    def body(n: Any, y: Any, block: Any, thread: Any) -> None:
        i = block * 16 + thread
        script.buffer_store(y, 0, [i])
        with script.serial(0, n[i]) as j:
            script.buffer_store(y, y[i] + j, [i])
        with script.serial(0, 0) as j:
            script.buffer_store(y, 1000 + j, [i])
        with script.serial(2, 9, step=3) as j:
            script.buffer_store(y, y[i] + 100 * j, [i])

    n = np.arange(COUNT, dtype=np.int32) % 7 - 2
    want = [sum(range(each)) + 100 * (2 + 5 + 8) for each in n]
    np.testing.assert_array_equal(compute(body, n, np.zeros(COUNT, np.int32)), want)


def test_a_while_loop_with_a_local_counter() -> None:
    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        i = block * 16 + thread
        left = script.alloc_local((1,), "int32")
        script.buffer_store(left, x[i], [0])
        script.buffer_store(y, 0, [i])
        with script.While(left[0] > 1):
            script.buffer_store(left, left[0] // 2, [0])
            script.buffer_store(y, y[i] + 1, [i])

    x = np.arange(1, COUNT + 1, dtype=np.int32)
    np.testing.assert_array_equal(compute(body, x, np.zeros(COUNT, np.int32)), np.log2(x).astype(int))


def test_accumulators_under_guards_and_beside_each_other() -> None:
    """A loop keeps both elements in registers, even if a guard surrounds the load."""

    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        i = block * 16 + thread
        script.buffer_store(y, 1.0, [i * 2])
        script.buffer_store(y, 2.0, [i * 2 + 1])
        with script.serial(0, 5) as j:
            script.buffer_store(y, tirx.if_then_else(x[i] > 20.0, y[i * 2] + x[j], y[i * 2]), [i * 2])
            script.buffer_store(y, tirx.max(y[i * 2 + 1], y[i * 2] - 3.0), [i * 2 + 1])

    first = np.where(X > 20, 11.0, 1.0)
    want = np.stack([first, np.maximum(2.0, first - 3)], axis=1).ravel()
    np.testing.assert_array_equal(compute(body, X, np.zeros(2 * COUNT, np.float32)), want)


def test_an_accumulator_of_an_unknown_length_under_a_guard() -> None:
    """The guard clamps indices that could be out of bounds; the register keeps its value."""

    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        i = block * 16 + thread + tirx.Cast("int32", x[0])
        script.buffer_store(y, 0.0, [i])
        with script.serial(0, 4) as j:
            script.buffer_store(y, tirx.if_then_else(x[j] >= 1.0, y[i] + x[j], y[i]), [i])

    np.testing.assert_array_equal(compute(body, X, np.zeros_like(X)), np.full(COUNT, 6.0))


def test_only_what_each_turn_writes_is_kept_in_a_register() -> None:
    """Thread 0 adds up for its block; the others must neither write there nor read beyond the end."""

    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        with script.serial(0, 16) as j, script.If(thread == 0), script.Then():
            script.buffer_store(y, y[block] + x[block * 16 + j], [block])

    np.testing.assert_array_equal(compute(body, X, np.zeros(4, np.float32)), X.reshape(4, 16).sum(axis=1))


def test_a_place_that_the_loop_changes_is_not_kept_in_a_register() -> None:
    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        place = script.alloc_local((1,), "int32")
        with script.serial(0, 4) as j:
            script.buffer_store(place, (block * 16 + thread) * 4 + x[j], [0])
            script.buffer_store(y, y[place[0]] + 1.0 + tirx.Cast("float32", j), [place[0]])

    got = compute(body, np.array([2, 0, 3, 1], np.int32), np.zeros(4 * COUNT, np.float32))
    np.testing.assert_array_equal(got, np.tile([2.0, 4.0, 1.0, 3.0], COUNT))


@pytest.mark.parametrize("kind", ["shared", "local"])
def test_two_names_of_one_memory(kind: str) -> None:
    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        i = block * 16 + thread
        line = (script.alloc_shared if kind == "shared" else script.alloc_local)((16,), "float32")
        same = script.decl_buffer((16,), "float32", data=line.data, scope=kind)
        script.buffer_store(line, x[i], [thread])
        script.buffer_store(same, same[thread] * 2, [thread])
        script.buffer_store(y, line[thread] + same[thread], [i])

    np.testing.assert_array_equal(compute(body, X, np.zeros_like(X)), 4 * X)


def test_shared_memory_and_barriers() -> None:
    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        line = script.alloc_shared((16,), "float32")
        script.buffer_store(line, x[block * 16 + thread], [thread])
        script.evaluate(tirx.call_intrin("void", "tirx.tvm_storage_sync", "shared"))
        script.buffer_store(y, line[15 - thread], [block * 16 + thread])

    want = X.reshape(4, 16)[:, ::-1].ravel()
    np.testing.assert_array_equal(compute(body, X, np.zeros_like(X)), want)


def test_threads_in_three_directions() -> None:
    def body(y: Any, *numbers: Any) -> None:
        bx, by, bz, tx, ty, tz = numbers
        index = ((((bz * 3 + by) * 2 + bx) * 2 + tz) * 3 + ty) * 4 + tx
        script.buffer_store(y, tirx.Cast("int32", index), [index])

    threads = [(f"blockIdx.{axis}", size) for axis, size in zip("xyz", (2, 3, 2), strict=True)]
    threads += [(f"threadIdx.{axis}", size) for axis, size in zip("xyz", (4, 3, 2), strict=True)]
    np.testing.assert_array_equal(compute(body, np.zeros(288, np.int32), threads=threads), np.arange(288))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "float16", "int64", "uint64", "float64"])
def test_elements_of_each_size(dtype: str) -> None:
    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        i = block * 16 + thread
        script.buffer_store(y, tirx.Cast(dtype, x[i]) if dtype != "bool" else x[COUNT - 1 - i], [i])

    x = (np.arange(COUNT) * 37 - 100).astype(dtype)
    np.testing.assert_array_equal(compute(body, x, np.zeros_like(x)), x[::-1] if dtype == "bool" else x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "int64"])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_vectors_in_memory(dtype: str, offset: int) -> None:
    """Aligned vectors are one access; other vectors need one access for each element."""

    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        start = (block * 16 + thread) * 4
        with script.vectorized(0, 4) as lane:
            script.buffer_store(y, x[start + lane + offset] + tirx.Cast(dtype, lane), [start + lane])

    x = (np.arange(COUNT * 4 + 4) % 120).astype(dtype)
    want = x[offset : offset + COUNT * 4] + np.tile(np.arange(4), COUNT).astype(dtype)
    np.testing.assert_array_equal(compute(body, x, np.zeros(COUNT * 4, dtype)), want)


def test_halves_in_vectors_are_rounded_to_even() -> None:
    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        start = (block * 16 + thread) * 4
        with script.vectorized(0, 4) as lane:
            script.buffer_store(y, tirx.round(x[start + lane]), [start + lane])

    x = (np.arange(COUNT * 4) / 2 - COUNT).astype("float32")
    np.testing.assert_array_equal(compute(body, x, np.zeros_like(x)), np.round(x))


def test_in_place() -> None:
    """Input and output are one tensor; elements are read before they are written."""

    def body(x: Any, y: Any, block: Any, thread: Any) -> None:
        i = block * 16 + thread
        with script.serial(0, 3) as j:
            script.buffer_store(y, x[i] * 2.0 + tirx.Cast("float32", j), [i])

    for noalias in (True, False):
        tensor = tvm.runtime.tensor(X, find_device("vulkan"))
        build(write_kernel([LINE, LINE], THREADS, body, noalias))(tensor, tensor)
        np.testing.assert_array_equal(tensor.numpy(), ((X * 2) * 2 + 1) * 2 + 2)


@pytest.mark.parametrize("others", [[], [("blockIdx.z", 2)], [("blockIdx.y", 2)]])
def test_more_blocks_than_a_direction_takes(others: list[tuple[str, int]]) -> None:
    """Rows of blocks follow each other along a free direction; the last row has surplus blocks."""
    count = 65535 * 2 + 38

    def body(y: Any, block: Any, *rest: Any) -> None:
        *other, thread = rest
        line = script.alloc_shared((2,), "int32")
        script.buffer_store(line, block + (other[0] if other else 0), [thread])
        script.evaluate(tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared"))
        row = other[0] * (count + 8) if other else 0
        with script.If(thread == 0), script.Then():
            script.buffer_store(y, line[1] + 1, [row + block])

    rows = 2 if others else 1
    threads = [("blockIdx.x", count), *others, ("threadIdx.x", 2)]
    got = compute(body, np.zeros(rows * (count + 8), np.int32), threads=threads, raw=False).reshape(rows, -1)
    for number, row in enumerate(got):
        np.testing.assert_array_equal(row, [*range(1 + number, count + 1 + number), *([0] * 8)])


def test_more_blocks_than_a_device_takes_are_told() -> None:
    def body(y: Any, *blocks: Any) -> None:
        script.buffer_store(y, 1.0, [sum(blocks)])

    for others in ([], ["blockIdx.x", "blockIdx.z"]):
        mod = write_kernel([((70004,), "float32")], [("blockIdx.y", 70000), *((tag, 2) for tag in others)], body)
        with pytest.raises(TvmbuildError, match=r"70000 blocks in blockIdx\.y, more than 65535"):
            generate(mod)
    mod = write_kernel([((70004,), "float32")], [("blockIdx.x", 70000), ("blockIdx.y", 2), ("blockIdx.z", 2)], body)
    with pytest.raises(TvmbuildError, match=r"70000 blocks in blockIdx\.x, more than 65535"):
        generate(mod)
