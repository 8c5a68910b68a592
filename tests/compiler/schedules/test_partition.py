"""Loops with branches are split, one loop for each branch, or have each branch at its own place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx, topi
from tvm.ir.instrument import pass_instrument

from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.schedules.cpu.partition import prepare_partition
from tvmbuild.compiler.schedules.cpu.rules import schedule_function
from tvmbuild.package.runtime.tensors import empty_array

pytestmark = pytest.mark.compiler
ROWS, LEFT, RIGHT = 7, 64, 40


def wide(*shape: int) -> list[tirx.IntImm]:
    return [tirx.IntImm("int64", each) for each in shape]


def make_concatenation(dtype: str = "uint8") -> tirx.PrimFunc:
    left, right = te.placeholder(wide(ROWS, LEFT), dtype), te.placeholder(wide(ROWS, RIGHT), dtype)
    return te.create_prim_func([left, right, topi.concatenate([left, right], axis=1)])


def make_shuffle() -> tirx.PrimFunc:
    """Return a concatenation with interleaved channels."""
    left, right = te.placeholder(wide(ROWS, LEFT), "uint8"), te.placeholder(wide(ROWS, LEFT), "uint8")
    apart = topi.reshape(topi.concatenate([left, right], axis=1), wide(ROWS, 2, LEFT))
    return te.create_prim_func([left, right, topi.reshape(topi.transpose(apart, [0, 2, 1]), wide(ROWS, 2 * LEFT))])


def build(function: tirx.PrimFunc) -> tuple[tvm.runtime.Module, list[tirx.PrimFunc]]:
    """Return the library, and the functions after loops have been partitioned."""
    target, seen = host_target(threads=1), list[tirx.PrimFunc]()

    @pass_instrument
    class _Look:
        def run_after_pass(self, mod: tvm.ir.IRModule, info: tvm.ir.transform.PassInfo) -> None:
            if info.name.endswith("StmtSimplify"):
                seen[:] = mod.functions.values()

    with target:
        scheduled = schedule_function(function, describe_machine(target)).with_attr("global_symbol", "main")
        mod = prepare_partition(tvm.ir.IRModule({"main": scheduled}))
        with tvm.transform.PassContext(instruments=[_Look()]):
            return tvm.compile(mod, target), seen


def count_branches(functions: list[tirx.PrimFunc]) -> int:
    found: list[str] = []
    for function in functions:
        tvm_ffi.structural_walk(
            function.body, [(tvm.ir.Call, lambda call: found.append(str(getattr(call.op, "name", ""))))]
        )
    return sum(name.endswith("if_then_else") for name in found)


@pytest.mark.parametrize("make", [make_concatenation, make_shuffle])
def test_no_branch_is_left_in_the_loops(make: Callable[[], tirx.PrimFunc]) -> None:
    library, lowered = build(make())
    assert lowered
    assert count_branches(lowered) == 0
    random = np.random.default_rng(0)
    left = random.integers(0, 256, (ROWS, LEFT), np.uint8)
    right = random.integers(0, 256, (ROWS, RIGHT if make is make_concatenation else LEFT), np.uint8)
    want = np.concatenate([left, right], axis=1)
    if make is make_shuffle:
        want = want.reshape(ROWS, 2, LEFT).transpose(0, 2, 1).reshape(ROWS, -1)
    out = tvm.runtime.tensor(np.zeros_like(want))
    library["main"](tvm.runtime.tensor(left), tvm.runtime.tensor(right), out)
    np.testing.assert_array_equal(out.numpy(), want)


def test_numbers_of_64_bits_stay_what_they_are() -> None:
    library, _ = build(make_concatenation("int64"))
    left, right = (np.full((ROWS, columns), value) for columns, value in ((LEFT, 1 << 40), (RIGHT, -(1 << 50))))
    out = tvm.runtime.tensor(np.zeros((ROWS, LEFT + RIGHT), np.int64))
    library["main"](tvm.runtime.tensor(left), tvm.runtime.tensor(right), out)
    np.testing.assert_array_equal(out.numpy(), np.concatenate([left, right], axis=1))


def test_a_branch_that_ends_at_another_place_in_each_row_writes_nothing_beyond_the_output() -> None:
    """The heads of an attention over two joined inputs: each head takes the first part of its 48 channels.

    TVM's partition of such a loop wrote beyond its end, over the memory behind the tensor.
    """
    rows, heads, size = 14, 8, 16
    half = heads * size * 3 // 2
    left, right = (te.placeholder(wide(rows, half), "float32", name) for name in ("left", "right"))
    joined = topi.reshape(topi.concatenate([left, right], axis=1), wide(rows, heads, 3 * size))
    parts = topi.split(joined, 3, axis=2)
    library, _ = build(te.create_prim_func([left, right, *parts]))
    x = np.random.default_rng(0).random((2, rows, half), np.float32)
    memory = empty_array((3, 2, rows, heads, size), "float32")
    memory.fill(-1)
    outputs = [tvm_ffi.from_dlpack(each[0]) for each in memory]
    library["main"](*map(tvm.runtime.tensor, x), *outputs)
    want = np.concatenate(list(x), axis=1).reshape(rows, heads, 3, size)
    np.testing.assert_array_equal(memory[:, 0], want.transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(memory[:, 1], -1)


def test_a_branch_that_elements_decide_beside_one_that_another_axis_moves() -> None:
    """The loop is marked for the first branch, and must not be split for the second one."""
    rows, columns = 8, 20
    left, right = (te.placeholder(wide(rows, columns), "float32", name) for name in ("left", "right"))
    joined = te.compute(
        wide(rows, columns),
        lambda i, j: (
            tirx.if_then_else(left[i, j] < 0.5, left[i, j], right[i, j])
            + tirx.if_then_else(i * 48 + j >= 192, right[i, j], left[i, j])
        ),
    )
    library, _ = build(te.create_prim_func([left, right, joined]))
    x = np.random.default_rng(0).random((2, rows, columns), np.float32)
    memory = empty_array((2, rows, columns), "float32")
    memory.fill(-1)
    library["main"](*map(tvm.runtime.tensor, x), tvm_ffi.from_dlpack(memory[0]))
    row, column = np.indices((rows, columns))
    want = np.where(x[0] < 0.5, x[0], x[1]) + np.where(row * 48 + column >= 192, x[1], x[0])
    np.testing.assert_array_equal(memory[0], want)
    np.testing.assert_array_equal(memory[1], -1)


def test_functions_without_such_loops_stay_as_they_are() -> None:
    data = te.placeholder(wide(8, 8), "float32")
    mod = tvm.ir.IRModule({"main": te.create_prim_func([data, topi.nn.relu(data)])})
    assert prepare_partition(mod)["main"].same_as(mod["main"])
