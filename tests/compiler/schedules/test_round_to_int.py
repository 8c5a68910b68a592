"""Bytes are rounded by the instruction that gives integers, with the same results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import draws
from quantised_graphs import IN_SCALE, OUT_SCALE, Network
from tvm import te, tirx
from tvm.s_tir.meta_schedule.database import MemoryDatabase

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.fast_math import use_fast_math
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.prim_funcs import list_nodes
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.cpu.round_to_int import round_to_integers
from tvmbuild.compiler.schedules.cpu.rules import schedule_function

pytestmark = pytest.mark.compiler
COUNT = 4096
SERVER = tvm_target("llvm", FrozenMap({"mcpu": "znver4", "mtriple": "x86_64-linux-gnu", "num-cores": 1}), FrozenMap())


def make_rounding(zero: int, bounds: tuple[float | None, float | None], dtype: str = "uint8") -> tirx.PrimFunc:
    """Return the rounding at the end of an integer graph, as it is fused."""
    data = te.placeholder([tirx.IntImm("int64", COUNT)], "float32")

    def convert(at: Any) -> Any:
        rounded = tirx.nearbyint(data[at])
        shifted = rounded + tirx.FloatImm("float32", zero) if zero else rounded
        for bound, each in zip(bounds, (tirx.Max, tirx.Min), strict=True):
            shifted = shifted if bound is None else each(shifted, tirx.FloatImm("float32", bound))
        return tirx.Cast(dtype, shifted)

    return te.create_prim_func([data, te.compute(data.shape, convert)])


def finish(function: tirx.PrimFunc, target: tvm.target.Target, *, rewritten: bool = True) -> tvm.ir.IRModule:
    use_fast_math()
    scheduled = schedule_function(function, describe_machine(target)).with_attr("global_symbol", "main")
    mod = tvm.ir.IRModule({"main": scheduled})
    return round_to_integers(mod, target) if rewritten else mod


def has_integers(mod: tvm.ir.IRModule) -> bool:
    calls = list_nodes(mod["main"], tvm.ir.Call)
    return any(
        str(getattr(each.op, "name", "")) == "tirx.nearbyint" and str(each.ty.dtype) == "int32" for each in calls
    )


def test_vectors_are_rounded_as_vectors_in_parallel_loops_too() -> None:
    """Left to LLVM, which knows less of memory there, a picture's first convolution was rounded number by number."""
    net, target = Network(np.random.RandomState(0)), host_target("znver4", threads=2)
    weights, scales = net.weigh((16, 3, 3, 3))
    made = net.add("Conv", [net.round("x", IN_SCALE, 0), weights, net.offset(16, scales, IN_SCALE)], pads=[1, 1, 1, 1])
    pooled = net.add("MaxPool", [net.round(made, OUT_SCALE, 30)], kernel_shape=[2, 2], strides=[2, 2])
    model = net.finish(net.round(pooled, OUT_SCALE, 30), (1, 3, 104, 104))
    mod = apply_records(lower(import_onnx(model), target), target, MemoryDatabase()).mod
    (name,) = (name for name in mod.get_global_vars() if "conv2d" in name.name_hint)
    code = tvm.tirx.build(mod[name].with_attr("global_symbol", "main"), target=target).inspect_source("ll")
    assert "llvm.lrint.v16i32" in code
    assert "llvm.lrint.i32" not in code


def test_one_instruction_rounds_and_makes_integers() -> None:
    with SERVER:
        code = tvm.compile(finish(make_rounding(12, (0, 255)), SERVER), SERVER).mod.inspect_source("asm")
    assert re.search(r"vcvtps2dq\b", code)
    assert not re.search(r"vrndscaleps|vcvttps2dq|call\w*\s+.*rint", code)


@settings(max_examples=draws(12), deadline=None)
@given(
    st.sampled_from(["uint8", "int8"]),
    st.integers(-130, 260),
    st.sampled_from([(0, 255), (-128, 127), (-1, 255), (7, 9), (0, 0)]),
    st.integers(0, 2**31 - 1),
)
def test_numbers_stay_what_they_are(dtype: str, zero: int, bounds: tuple[int, int], seed: int) -> None:
    low, high = np.clip(bounds, *(np.iinfo(dtype).min, np.iinfo(dtype).max))
    random = np.random.default_rng(seed)
    x = random.uniform(-300, 300, COUNT).astype(np.float32)
    x[: COUNT // 2] = random.integers(-600, 600, COUNT // 2) / 2  # ties
    x[:6] = [np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31)]
    function, target = make_rounding(zero, (int(low), int(high)), dtype), host_target(threads=1)
    found = []
    with target:
        for rewritten in (True, False):
            mod = finish(function, target, rewritten=rewritten)
            assert has_integers(mod) is rewritten
            out = tvm.runtime.tensor(np.zeros(COUNT, dtype))
            tvm.compile(mod, target)["main"](tvm.runtime.tensor(x), out)
            found.append(out.numpy())
    want = np.clip(np.rint(x) + np.float32(zero), low, high).astype(dtype)
    for each in found:
        np.testing.assert_array_equal(each, want)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
@pytest.mark.parametrize("bounds", [(0, None), (None, 100), (None, None)])
@pytest.mark.parametrize("zero", [0, 17])
def test_so_they_do_where_they_are_bounded_before(
    dtype: str, bounds: tuple[float | None, float | None], zero: int
) -> None:
    """A graph has this form if each channel has bounds of its own."""
    target, x = host_target(threads=1), np.random.default_rng(0).integers(-40, 220, COUNT).astype(np.float32) / 2
    x = np.maximum(x, 0) if dtype == "uint8" else x
    with target:
        mod = finish(make_rounding(zero, bounds, dtype), target)
        assert has_integers(mod)
        out = tvm.runtime.tensor(np.zeros(COUNT, dtype))
        tvm.compile(mod, target)["main"](tvm.runtime.tensor(x), out)
    low, high = (np.inf * sign if each is None else each for each, sign in zip(bounds, (-1, 1), strict=True))
    np.testing.assert_array_equal(out.numpy(), np.clip(np.rint(x) + zero, low, high).astype(dtype))


@pytest.mark.parametrize("bounds", [(0.5, 255), (0, 254.5)])
def test_bounds_between_integers_are_left(bounds: tuple[float, float]) -> None:
    assert not has_integers(finish(make_rounding(3, bounds), SERVER))


def test_other_machines_are_left() -> None:
    target = tvm_target("llvm", FrozenMap({"mcpu": "cortex-a76", "mtriple": "aarch64-linux-gnu"}), FrozenMap())
    assert not has_integers(finish(make_rounding(3, (0, 255)), target))
