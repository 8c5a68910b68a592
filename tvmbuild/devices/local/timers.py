"""The choice of the timer for a search's candidates on this machine's GPU, by the target's kind."""

from __future__ import annotations

from collections.abc import Callable

from tvmbuild.devices.candidate_timer import TIME_TIMEOUT_S
from tvmbuild.devices.candidates import Argument, Timing
from tvmbuild.devices.kind import Cores
from tvmbuild.devices.local.cuda_timer import time_kernel
from tvmbuild.devices.local.gpu_timer import GpuTimer
from tvmbuild.devices.local.vulkan_timer import time_shader
from tvmbuild.targets.table import target_kind

FUNCTIONS: dict[str, Callable[[str, tuple[Argument, ...], Timing], list[float]]] = {
    "cuda": time_kernel,
    "vulkan": time_shader,
}


def make_timer(kind: str, cores: Cores, timeout_s: int = TIME_TIMEOUT_S) -> GpuTimer | None:
    """Return a GPU timer for the target's kind, or None for a CPU kind.

    Its process is bound to the timing cores, or to the building cores if timing needs none.
    """
    if not target_kind(kind).on_gpu:
        return None
    used = cores.building if target_kind(kind).frees_cores else cores.timing
    return GpuTimer(kind, FUNCTIONS[kind], used, timeout_s)
