"""Functions of functions: what the pass writes, and that the code of deep ones is made and right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx

from tvmbuild.compiler.codegen.fast_math import FUNCTIONS, use_fast_math
from tvmbuild.compiler.ir.prim_funcs import list_nodes, list_within
from tvmbuild.compiler.schedules.cpu.nested_functions import separate_nested_functions

pytestmark = pytest.mark.compiler

SIZE = 64
Formula = Callable[[Any], Any]


def make(formula: Formula, *, lanes: int = 8) -> tvm.ir.IRModule:
    x = te.placeholder((SIZE,), name="x")
    y = te.compute((SIZE,), lambda i: formula(x[i]), name="y")
    sch = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, y])}))
    if lanes > 1:
        sch.vectorize(sch.split(sch.get_loops(sch.get_sblock("y"))[0], [None, lanes])[1])
    return sch.mod


def run(mod: tvm.ir.IRModule) -> np.ndarray:
    use_fast_math()
    data = np.linspace(-2, 2, SIZE, dtype="float32")
    result = tvm.runtime.empty((SIZE,), "float32")
    built: Any = tvm.compile(mod, target=tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"}))
    built["main"](tvm.runtime.tensor(data), result)
    array: np.ndarray = result.numpy()
    return array


def list_functions(mod: tvm.ir.IRModule) -> list[tvm.ir.Call]:
    calls = list_nodes(mod["main"], tvm.ir.Call)
    return [call for call in calls if str(call.op.name).removeprefix("tirx.") in FUNCTIONS]


@pytest.mark.parametrize("lanes", [1, 8])
def test_a_function_of_six_functions_is_computed(lanes: int) -> None:
    def formula(x: Any) -> Any:
        for function in (tirx.tanh, tirx.sigmoid, tirx.exp, tirx.tanh, tirx.sigmoid, tirx.tanh):
            x = function(x)
        return x

    separated = separate_nested_functions(make(formula, lanes=lanes))
    for call in list_functions(separated):
        assert not list_within(list(call.args), tvm.ir.Call), call
    x = np.linspace(-2, 2, SIZE, dtype="float64")
    sigmoid: Callable[[np.ndarray], np.ndarray] = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    want = np.tanh(sigmoid(np.tanh(np.exp(sigmoid(np.tanh(x))))))
    np.testing.assert_allclose(run(separated), want, rtol=1e-6)


def test_equal_results_are_computed_once() -> None:
    def softsign(x: Any) -> Any:
        return x / (tirx.const(1.0, "float32") + tirx.abs(x))

    separated = separate_nested_functions(make(lambda x: tirx.exp(softsign(softsign(tirx.tanh(x))))))
    assert sorted(str(call.op.name) for call in list_functions(separated)) == ["tirx.exp", "tirx.tanh"]
    t = np.tanh(np.linspace(-2, 2, SIZE, dtype="float64"))
    s = t / (1 + np.abs(t))
    np.testing.assert_allclose(run(separated), np.exp(s / (1 + np.abs(s))), rtol=1e-6)


@pytest.mark.parametrize("lanes", [1, 8])
def test_nothing_is_moved_out_of_a_condition(lanes: int) -> None:
    def formula(x: Any) -> Any:
        return tirx.exp(tirx.if_then_else(x > tirx.const(0.0, "float32"), tirx.tanh(tirx.log(x)), x))

    mod = make(formula, lanes=lanes)
    assert tvm_ffi.structural_equal(separate_nested_functions(mod), mod)


def test_functions_beside_each_other_stay() -> None:
    mod = make(lambda x: tirx.exp(x) + tirx.tanh(x))
    assert separate_nested_functions(mod) is mod
