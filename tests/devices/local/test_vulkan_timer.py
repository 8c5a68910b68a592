"""Timing and checking kernels on a Vulkan device; skipped if none runs code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from gpu_kernels import check_timer

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import TargetSpec
from tvmbuild.devices.local.gpu_timer import GpuTimer
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
SPEC = TargetSpec(
    "here",
    "vulkan",
    FrozenMap(sorted(FAMILIES["intel-iris-xe"].items())),
    host=FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"}),
)


@pytest.fixture(scope="module")
def target() -> Any:
    from tvmbuild.compiler.machine.target import tvm_target

    return tvm_target(SPEC.kind, SPEC.attributes, SPEC.host)


@pytest.mark.filterwarnings("ignore:build is deprecated:DeprecationWarning")
def test_a_kernel_is_timed_and_compared(target: Any, tmp_path: Path) -> None:
    from tvmbuild.devices.local.vulkan_timer import time_shader

    timer = GpuTimer("vulkan", time_shader, tuple(os.sched_getaffinity(0)))
    samples = check_timer(timer, tmp_path, target, 1 << 16)
    assert len(samples) >= 3
    assert all(1e-6 < sample < 1 for sample in samples)


def test_the_device_class_is_a_name_without_versions(target: Any) -> None:
    from tvmbuild.targets.table import target_kind

    assert target is not None
    name = target_kind("vulkan").find_device_class()
    assert name == name.lower()
    assert not set(name) & set("() ,.")
