"""Normalisation and softmax row by row: rows of any length, along memory and across it, for all vector widths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx, topi

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.codegen.generators import use_generators
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.schedules.cpu.rows.rule import MARK, expand_rows
from tvmbuild.compiler.schedules.cpu.rules import list_schedules, schedule_function, schedule_uncovered

Make = Callable[[te.Tensor], te.Tensor]
Shape = tuple[int, ...]


def find_target(mcpu: str = "x86-64-v3", threads: int = 2) -> tvm.target.Target:
    return tvm_target(
        "llvm", FrozenMap({"mcpu": mcpu, "mtriple": "x86_64-unknown-linux-gnu", "num-cores": threads}), FrozenMap()
    )


def layer_norm(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    centred = x - x.mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt((centred * centred).mean(axes, keepdims=True) + 1e-5))


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def norm(x: te.Tensor, axes: tuple[int, ...]) -> te.Tensor:
    sizes = [x.shape[axis] for axis in axes]
    ones, zeros = (topi.full(sizes, str(x.dtype), value) for value in (1.0, 0.0))
    return topi.nn.layer_norm(x, ones, zeros, list(axes), 1e-5)


def run(make: Make, data: np.ndarray, target: tvm.target.Target) -> np.ndarray:
    """Compute the function as the rule schedules it, and assert that the rule took it."""
    x = te.placeholder(data.shape, str(data.dtype), "x")
    mod = schedule_uncovered(tvm.IRModule({"main": te.create_prim_func([x, make(x)])}), target)
    assert MARK in mod["main"].script()
    expanded = expand_rows(mod, target)
    assert "T.vectorized" in expanded["main"].script()
    out = tvm.runtime.empty([int(each) for each in expanded["main"].params[-1].shape], str(data.dtype))
    with use_generators(target):
        tvm.compile(expanded, target)["main"](tvm.runtime.tensor(data), out)
    return np.asarray(out.numpy())


CASES: dict[str, tuple[Shape, Make, Callable[[np.ndarray], np.ndarray]]] = {
    "softmax-197": ((3, 5, 197), lambda x: topi.nn.softmax(x, 2), lambda x: softmax(x, 2)),
    "softmax-9": ((11, 9), lambda x: topi.nn.softmax(x, 1), lambda x: softmax(x, 1)),
    "softmax-of-one-long-row": ((1, 50257), lambda x: topi.nn.softmax(x, 1), lambda x: softmax(x, 1)),
    "softmax-of-channels": ((2, 21, 7, 13), lambda x: topi.nn.softmax(x, 1), lambda x: softmax(x, 1)),
    "softmax-of-few-columns": ((40, 19, 3), lambda x: topi.nn.softmax(x, 1), lambda x: softmax(x, 1)),
    "log-softmax": ((33, 100), lambda x: topi.nn.log_softmax(x, 1), lambda x: np.log(softmax(x, 1))),
    "layer-norm": ((1, 50, 192), lambda x: norm(x, (2,)), lambda x: layer_norm(x, (2,))),
    "layer-norm-of-two-axes": ((3, 7, 5, 11), lambda x: norm(x, (2, 3)), lambda x: layer_norm(x, (2, 3))),
    "layer-norm-of-channels": ((2, 64, 5, 9), lambda x: norm(x, (1,)), lambda x: layer_norm(x, (1,))),
    "mean-197": ((40, 197), lambda x: topi.sum(x, 1) / 197.0, lambda x: x.mean(1)),
    "largest-1001": ((3, 1001), lambda x: topi.max(x, 1), lambda x: x.max(1)),
    "smallest-1001": ((3, 1001), lambda x: topi.min(x, 1), lambda x: x.min(1)),
    "product-31": ((3, 31), lambda x: topi.prod(x, 1), lambda x: x.prod(1)),
}


@pytest.mark.compiler
@pytest.mark.parametrize("mcpu", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_numpy_s(name: str, mcpu: str) -> None:
    shape, make, compute = CASES[name]
    data = np.random.RandomState(4).normal(1, 2, shape).astype("float32")
    got = run(make, data, find_target(mcpu))
    want = compute(data.astype("float64"))
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=2e-5, atol=2e-6)


@pytest.mark.compiler
def test_drawn_shapes_and_axes() -> None:
    random = np.random.RandomState(7)
    for _ in range(5):
        shape = tuple(int(each) for each in random.choice([1, 2, 3, 8, 17, 33, 64], random.randint(2, 5)))
        axis = int(random.randint(len(shape)))
        if shape[axis] < 8:
            shape = (*shape[:axis], 41, *shape[axis + 1 :])
        data = random.normal(0, 3, shape).astype("float32")
        target, exact = find_target(threads=3), data.astype("float64")
        got = run(lambda x, axis=axis: topi.nn.softmax(x, axis), data, target)  # type: ignore[misc]
        np.testing.assert_allclose(got, softmax(exact, axis), rtol=2e-5, atol=2e-6, err_msg=str(shape))
        got = run(lambda x, axis=axis: norm(x, (axis,)), data, target)  # type: ignore[misc]
        np.testing.assert_allclose(got, layer_norm(exact, (axis,)), rtol=2e-5, atol=2e-6, err_msg=str(shape))


@pytest.mark.compiler
def test_other_types_than_float32() -> None:
    target, random = find_target(), np.random.RandomState(2)
    for dtype, tolerance in (("float16", 2e-3), ("float64", 1e-12)):
        data = random.normal(0, 1, (9, 75)).astype(dtype)
        got = run(lambda x: topi.nn.softmax(x, 1), data, target)
        np.testing.assert_allclose(got, softmax(data.astype("float64"), 1), atol=tolerance)
    whole = random.randint(-9, 9, (5, 75)).astype("int32")
    np.testing.assert_array_equal(run(lambda x: topi.sum(x, 1), whole, target), whole.sum(1))


@pytest.mark.compiler
def test_a_variance_far_from_zero_keeps_its_digits() -> None:
    data = np.random.RandomState(3).normal(4096, 1, (8, 384)).astype("float32")
    got = run(lambda x: norm(x, (1,)), data, find_target())
    np.testing.assert_allclose(got, layer_norm(data.astype("float64"), (1,)), atol=2e-3)


@pytest.mark.compiler
def test_infinities_and_what_is_no_number() -> None:
    data = np.random.RandomState(5).normal(0, 1, (4, 37)).astype("float32")
    data[1, 5:] = -np.inf
    data[2, 36] = np.nan
    got = run(lambda x: topi.nn.softmax(x, 1), data, find_target())
    want = softmax(data.astype("float64"), 1)
    np.testing.assert_allclose(got[[0, 1, 3]], want[[0, 1, 3]], atol=1e-6)
    assert np.isnan(got[2]).any()


def test_one_parallel_loop_has_all_passes_of_a_row() -> None:
    target = find_target()
    x = te.placeholder((600, 197), "float32", "x")
    mod = tvm.IRModule({"main": te.create_prim_func([x, topi.nn.softmax(x, 1)])})
    script = expand_rows(schedule_uncovered(mod, target), target)["main"].script()
    assert script.count("T.parallel") == 1
    small = te.placeholder((3, 197), "float32", "x")
    mod = tvm.IRModule({"main": te.create_prim_func([small, topi.sum(small, 1)])})
    assert "T.parallel" not in expand_rows(schedule_uncovered(mod, target), target)["main"].script()


def test_the_rule_is_a_schedule_to_measure_and_its_trace_marks_the_function(cpu: tvm.target.Target) -> None:
    x = te.placeholder((30, 197), "float32", "x")
    mod = tvm.IRModule({"main": te.create_prim_func([x, topi.nn.softmax(x, 1)])})
    (found,) = list_schedules(mod, cpu, 8)
    again = s_tir.Schedule(mod["main"])
    found.trace.apply_to_schedule(again, remove_postproc=False)
    tvm.ir.assert_structural_equal(again.mod["main"], found.mod["main"])
    assert MARK in again.mod["main"].script()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: topi.nn.matmul(x, topi.transpose(x)),
        lambda x: topi.nn.softmax(topi.cumsum(x, axis=1), 1),
        lambda x: topi.sum(x, 0),
        lambda x: topi.nn.softmax(topi.reshape(x, (16, 6)), 1),
    ],
    ids=["product", "with-an-extern", "one-sum-across", "short-rows"],
)
def test_other_forms_are_left_to_other_rules(make: Make, cpu: tvm.target.Target) -> None:
    x = te.placeholder((8, 12), "float32", "x")
    function: tirx.PrimFunc = te.create_prim_func([x, make(x)])
    assert MARK not in schedule_function(function, describe_machine(cpu)).script()
