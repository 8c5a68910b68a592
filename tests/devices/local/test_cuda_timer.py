"""Timing and checking kernels on a GPU; skipped if none answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_kernels import check_timer

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.devices.local.gpu_timer import GpuTimer

pytestmark = [pytest.mark.compiler, pytest.mark.cuda]

HOST = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"})


@pytest.fixture(scope="module")
def target() -> Any:
    import tvm

    from tvmbuild.compiler.machine.target import tvm_target

    arch = "sm_" + str(tvm.cuda(0).compute_version).replace(".", "")
    limits = FrozenMap({"max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "thread_warp_size": 32})
    return tvm_target("cuda", FrozenMap({"arch": arch, **limits}), HOST)


def test_a_kernel_is_timed_and_compared(target: Any, tmp_path: Path) -> None:
    from tvmbuild.devices.local.cuda_timer import time_kernel

    samples = check_timer(GpuTimer("cuda", time_kernel, (0,)), tmp_path, target, 1 << 20)
    assert all(1e-6 < sample < 1e-3 for sample in samples)
