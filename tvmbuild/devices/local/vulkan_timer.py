"""Timing of a search's Vulkan candidates on this machine's first Vulkan device."""

from __future__ import annotations

from tvmbuild.devices.candidates import Argument, Timing, time_candidate
from tvmbuild.devices.local.gpu_timer import use_gpu


def time_shader(library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
    """Load the library and time its function on random ``arguments``. Returns samples in seconds per call."""
    use_gpu("vulkan")
    return time_candidate(library, arguments, timing, "vulkan")
