"""Results of benchmarks that never ran, for tests of code that reads results."""

from __future__ import annotations

from dataclasses import replace

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.benchmarking.estimates import Estimate, Latency
from tvmbuild.benchmarking.frames.results import PARTS, FrameCheck, FrameResult, FrameRival, FrameTimes
from tvmbuild.benchmarking.history import Entry
from tvmbuild.benchmarking.results import Absent, Product, Result, Rival
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.package.profile import OperatorRow

SPREAD = 0.02
"""Half an interval's width, as a share of its value."""


def around(value: float, spread: float = SPREAD) -> Estimate:
    return Estimate(value, value * (1 - spread), value * (1 + spread))


def latency(ms: float, spread: float = SPREAD) -> Latency:
    return Latency(around(ms, spread), 4.5 * ms, 0.5 * ms, 60, 1)


def rival(name: str, ours_ms: float, theirs_ms: float, version: str = "1.0") -> Rival:
    return Rival(name, version, latency(theirs_ms), around(ours_ms / theirs_ms))


def make_result(cell: str = "net@cpu", ms: float = 2.0, onnxruntime_ms: float = 4.0) -> Result:
    """Return a result on two threads of a machine called `A CPU`; nothing is doubtful."""
    operators = (
        OperatorRow("fused_conv2d", "conv2d_add", "0" * 16, 2, 1500.0, 0.75, 10_000_000, 1_000_000, True),
        OperatorRow("softmax", "softmax", "1" * 16, 1, 500.0, 0.25, None, None, False),
    )
    return Result(
        cell=cell,
        product=Product(cell.partition("@")[2], "ab" * 8, "cd" * 32, 123456, 10, 9),
        threads=2,
        latency=latency(ms),
        rivals=(rival("onnxruntime", ms, onnxruntime_ms),),
        absent=(Absent("openvino", "OpenVINO is not installed; install it"),),
        machine=MachineState("A CPU", 2, None, 0.1, 0.01, 61.0),
        max_abs_error=1.5e-6,
        max_rel_error=1e-5,
        peak_memory_mb=90.0,
        operators=operators,
    )


def make_entry(time: int, result: Result, **schedules: str) -> Entry:
    """Return a line of the history; ``schedules``: Task key → digest."""
    return Entry(time, replace(result, operators=()), FrozenMap(sorted(schedules.items())))


def make_framed(ms: float = 4.8, opencv_ms: float = 6.0) -> FrameResult:
    """Return times from a frame to boxes beside OpenCV's way."""
    parts, others = (
        {name: round(share * whole, 3) for name, share in zip(PARTS, shares, strict=True)}
        for whole, shares in ((ms, (0.1, 0.8, 0.05)), (opencv_ms, (0.15, 0.75, 0.1)))
    )
    agreement = "the same 12 boxes, scores within 2.0e-06, overlaps from 1.000"
    rival = FrameRival(
        "opencv",
        "4.10",
        FrameTimes(latency(opencv_ms), round(1.4 * opencv_ms, 3), others, round(2.1 * opencv_ms, 3), 0.09),
        around(ms / opencv_ms),
        agreement,
    )
    return FrameResult(
        frame="bgr8 [1080, 1920, 3], bilinear",
        check=FrameCheck(2, 40, 1.0, 2e-6, 1e-4),
        times=FrameTimes(latency(ms), round(1.3 * ms, 3), parts, round(1.8 * ms, 3), 0.07),
        rivals=(rival,),
        found=12,
        temperature_c=61.0,
        throttled=0,
        clock=0.97,
    )
