"""Timing and checking kernels on a Vulkan device; skipped where none runs code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvmbuild.availability import explain_unavailable
from tvmbuild.capabilities import detect_capabilities
from tvmbuild.config.vulkan_families import FAMILIES
from tvmbuild.specs import TargetSpec

pytestmark = pytest.mark.compiler
SPEC = TargetSpec(
    "here",
    "vulkan",
    tuple(sorted(FAMILIES["intel-iris-xe"].items())),
    host=(("mcpu", "x86-64-v3"), ("mtriple", "x86_64-linux-gnu")),
)
ARGUMENTS = (("float32", (1 << 16,)), ("float32", (1 << 16,)))


@pytest.fixture(scope="module")
def target() -> Any:
    from tvmbuild.compiler.target import tvm_target

    for stage in ("compile", "benchmark"):
        problem = explain_unavailable(stage, SPEC, detect_capabilities())
        if problem is not None:
            pytest.skip(f"needs Vulkan: {problem}")
    return tvm_target(SPEC.kind, SPEC.attributes, SPEC.host)


def build(path: Path, target: Any, factor: float) -> str:
    """Build y = x * factor."""
    from tvm import te

    from tvmbuild.compiler.dlight_rules import schedule_by_default
    from tvmbuild.compiler.tasks import normalised
    from tvmbuild.tuner.worker import build_library

    x = te.placeholder(ARGUMENTS[0][1], name="x")
    mod = normalised(te.create_prim_func([x, te.compute(x.shape, lambda i: x[i] * np.float32(factor), name="y")]))
    if str(target.kind.name) == "vulkan":
        schedule = schedule_by_default(mod["main"], target)
        assert schedule is not None
        mod = schedule.mod
    return build_library(mod, target, str(path), None)


@pytest.mark.filterwarnings("ignore:build is deprecated:DeprecationWarning")
def test_a_kernel_is_timed_and_compared(target: Any, tmp_path: Path) -> None:
    from tvmbuild.devices.candidates import Timing
    from tvmbuild.devices.gpu_timer import GpuTimer
    from tvmbuild.devices.vulkan_timer import time_shader

    twice, thrice = build(tmp_path / "2.so", target, 2), build(tmp_path / "3.so", target, 3)
    want = build(tmp_path / "c.so", target.host, 2)
    timer = GpuTimer("vulkan", time_shader, tuple(os.sched_getaffinity(0)))
    try:
        samples = timer.time(twice, ARGUMENTS, Timing(1, 3, 1))
        assert len(samples) >= 3
        assert all(1e-6 < sample < 1 for sample in samples)
        assert timer.compare(want, twice, ARGUMENTS) is None
        assert "argument 1 differs in " in str(timer.compare(want, thrice, ARGUMENTS))
        with pytest.raises(Exception, match="missing"):
            timer.time(str(tmp_path / "missing.so"), ARGUMENTS, Timing(1, 3, 1))
        assert timer.time(twice, ARGUMENTS, Timing(1, 1, 1))
    finally:
        timer.close()


def test_the_device_class_is_a_name_without_versions(target: Any) -> None:
    from tvmbuild.stages.task_records import describe_gpu

    assert target is not None
    name = describe_gpu("vulkan")
    assert name == name.lower()
    assert not set(name) & set("() ,.")
