"""Kernels that multiply by a constant, and a check of their timers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvmbuild.devices.candidates import Argument, Timing
from tvmbuild.devices.local.gpu_timer import GpuTimer


def build_product(path: Path, target: Any, factor: float, elements: int) -> str:
    """Build y = x * factor; for a GPU by its default schedule."""
    from tvm import te

    from tvmbuild.compiler.machine.target import is_gpu
    from tvmbuild.compiler.schedules.gpu.rules import list_schedules
    from tvmbuild.compiler.tasks import normalised
    from tvmbuild.tuning.candidate_pool import build_library

    x = te.placeholder((elements,), name="x")
    mod = normalised(te.create_prim_func([x, te.compute(x.shape, lambda i: x[i] * np.float32(factor), name="y")]))
    if is_gpu(target):
        mod = list_schedules(mod["main"], target, 1)[0].mod
    return build_library(mod, target, str(path), None)


def check_timer(timer: GpuTimer, folder: Path, target: Any, elements: int) -> list[float]:
    """Time and compare good kernels, a wrong one and a missing one; return the samples, in seconds."""
    twice, thrice = (build_product(folder / f"{factor}.so", target, factor, elements) for factor in (2, 3))
    want = build_product(folder / "c.so", target.host, 2, elements)
    arguments: tuple[Argument, ...] = (("float32", (elements,)), ("float32", (elements,)))
    try:
        samples = timer.time(twice, arguments, Timing(1, 3, 1))
        assert timer.compare(want, twice, arguments) is None
        assert "argument 1 differs in " in str(timer.compare(want, thrice, arguments))
        with pytest.raises(Exception, match="missing"):
            timer.time(str(folder / "missing.so"), arguments, Timing(1, 3, 1))
        assert timer.time(twice, arguments, Timing(1, 1, 1))
    finally:
        timer.close()
    return samples
