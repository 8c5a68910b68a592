"""Timing and checking kernels on a card; skipped where none answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.compiler

HOST = (("mcpu", "x86-64-v3"), ("mtriple", "x86_64-linux-gnu"))


@pytest.fixture(scope="module")
def target() -> Any:
    import tvm

    from tvmbuild.compiler.target import tvm_target

    if not tvm.cuda(0).exist:
        pytest.skip("no CUDA device answers on this machine")
    arch = "sm_" + str(tvm.cuda(0).compute_version).replace(".", "")
    limits = (("max_shared_memory_per_block", 49152), ("max_threads_per_block", 1024), ("thread_warp_size", 32))
    return tvm_target("cuda", (("arch", arch), *limits), HOST)


def build(path: Path, target: Any, factor: float) -> str:
    """Build y = x * factor over 2^20 elements."""
    from tvm import s_tir, te

    from tvmbuild.compiler.tasks import normalised
    from tvmbuild.tuner.worker import build_library

    x = te.placeholder((1 << 20,), name="x")
    mod = normalised(te.create_prim_func([x, te.compute(x.shape, lambda i: x[i] * np.float32(factor), name="y")]))
    if str(target.kind.name) == "cuda":
        sch = s_tir.Schedule(mod)
        outer, inner = sch.split(sch.get_loops(sch.get_sblock("y"))[0], [None, 256])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
        mod = sch.mod
    return build_library(mod, target, str(path), None)


def test_a_kernel_is_timed_and_compared(target: Any, tmp_path: Path) -> None:
    from tvmbuild.devices.candidates import Timing
    from tvmbuild.devices.cuda_timer import time_kernel
    from tvmbuild.devices.gpu_timer import GpuTimer

    twice, thrice = build(tmp_path / "2.so", target, 2), build(tmp_path / "3.so", target, 3)
    want = build(tmp_path / "c.so", target.host, 2)
    arguments = (("float32", (1 << 20,)), ("float32", (1 << 20,)))
    timer = GpuTimer("cuda", time_kernel, (0,))
    try:
        samples = timer.time(twice, arguments, Timing(1, 3, 1))
        assert all(1e-6 < sample < 1e-3 for sample in samples)
        assert timer.compare(want, twice, arguments) is None
        assert "argument 1 differs in " in str(timer.compare(want, thrice, arguments))
        with pytest.raises(Exception, match="missing"):
            timer.time(str(tmp_path / "missing.so"), arguments, Timing(1, 3, 1))
        assert timer.time(twice, arguments, Timing(1, 1, 1))
    finally:
        timer.close()
