"""Sums over windows on GPUs: right with threads as loops on the CPU, for all layouts, windows and ends of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from cuda_sources import write_source
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matrix_products import run
from nights import draws
from tvm.s_tir import meta_schedule as ms
from vulkan_devices import HOST, LEAST
from window_sums import BUSY, CARD, Layout, sum_windows

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.codegen import cubin as cuda
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.schedules.attempt import try_rule
from tvmbuild.compiler.schedules.gpu.rules import fits, list_schedules
from tvmbuild.compiler.schedules.gpu.sliding_window import list_windows, slide, view_windows
from tvmbuild.replay.traces import dump_trace, load_record

pytestmark = pytest.mark.compiler


@st.composite
def windows(draw: st.DrawFn) -> tvm.IRModule:
    """Draw a function with a sum over windows."""
    kernel, dilation = draw(st.integers(2, 5)), draw(st.integers(1, 2))
    operator = draw(st.sampled_from(["Conv", "MaxPool"]))
    pads = [draw(st.integers(0, kernel // 2)) for _ in range(4)]
    size = draw(st.integers(dilation * (kernel - 1) + 2, 15))
    said = {"kernel_shape": [kernel] * 2, "dilations": [dilation] * 2, "pads": pads}
    said["strides"] = [draw(st.integers(1, 3))] * 2
    shape = draw(st.integers(1, 3)), draw(st.sampled_from([4, 6, 8, 12, 7])), size
    layout: Layout = draw(st.sampled_from(["NCHW", "NHWC"]))
    return sum_windows(operator, shape, layout=layout, precision=draw(st.sampled_from(["fp32", "fp16"])), **said)


@settings(max_examples=draws(25), deadline=None)
@given(windows(), st.sampled_from([1, 2, 3, 4]), st.sampled_from([32, 50]))
def test_neighbours_of_a_row_are_right(mod: tvm.IRModule, neighbours: int, threads: int) -> None:
    seen = try_rule(view_windows, mod["main"])
    assume(seen is not None)  # it is None if a row has one output
    assert seen is not None
    got = run(slide(seen, neighbours, threads, bind=False).mod)
    np.testing.assert_allclose(got, run(mod), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("layout", "strides", "neighbours"), [("NHWC", 1, 4), ("NHWC", 2, 4), ("NCHW", 1, 2), ("NCHW", 2, None)]
)
def test_the_rule_takes_neighbours_where_they_share_enough(
    layout: Layout, strides: int, neighbours: int | None
) -> None:
    said: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [strides] * 2}
    function = sum_windows("Conv", BUSY, layout=layout, **said)["main"]
    found = list_windows(function, 4)
    if neighbours is None:
        assert not found
        return
    seen = view_windows(function)
    assert seen is not None
    assert seen.lanes == (4 if layout == "NHWC" else 1)
    assert tvm_ffi.structural_equal(found[0].mod, slide(seen, neighbours, 128).mod, map_free_vars=True)
    assert tvm_ffi.structural_equal(list_schedules(function, CARD, 1)[0].mod, found[0].mod, map_free_vars=True)


def test_few_outputs_are_left_to_a_thread_each() -> None:
    said: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    assert not list_windows(sum_windows("Conv", (1, 32, 14), **said)["main"], 4)


def test_what_windows_share_is_read_once() -> None:
    """Three rows of six pixels for four outputs, and nine weights and a bias: 28 loads instead of 4 * 19."""
    function = sum_windows("Conv", BUSY, kernel_shape=[3, 3], pads=[1, 1, 1, 1])["main"]
    source = write_source(list_windows(function, 1)[0].mod, CARD)
    assert source.count("*(half4*)(lv_ptr") == 18
    assert cuda.compile_source(source, CARD)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_schedules_keep_to_limits_and_are_made_again_of_their_records(layout: Layout) -> None:
    mod = sum_windows("Conv", BUSY, layout=layout, precision="fp32", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    for target in (CARD, tvm_target("vulkan", FrozenMap(sorted(LEAST.items())), HOST)):
        (schedule,) = list_windows(mod["main"], 1)
        assert fits(schedule.mod, target)
        workload = ms.database.Workload(mod)
        record = ms.database.TuningRecord(schedule.trace, workload, [1.0], target, None)
        replayed = tvm.s_tir.Schedule(mod)
        load_record(dump_trace(record), workload, target).trace.apply_to_schedule(replayed, remove_postproc=False)
        assert tvm_ffi.structural_equal(replayed.mod, schedule.mod, map_free_vars=True)
