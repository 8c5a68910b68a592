"""Hardware limits that the schedule rules assume.

To build for other hardware, change the numbers here; packages that are built with other numbers differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class CpuLimits:
    """The limits of a CPU whose target does not state them; the defaults fit the CPUs of the last ten years."""

    near_cache: int = 1 << 14
    """The number of bytes that stay in the first-level cache in addition to the data that stream through it."""
    near_rows: int = 1 << 15
    """The number of bytes of padded rows that stay in the first-level cache."""
    near_weights: int = 1 << 13
    """The largest number of a convolution's weights that fits into the first-level cache."""
    far_cache: int = 1 << 20
    """The number of bytes of intermediate results that are computed together: about half of a second-level cache."""
    fma_latency: int = 4
    """The latency of a fused multiplication and addition, in cycles."""
    reading: float = 40e9
    """The bandwidth of memory, in bytes per second."""


USUAL_CPU = CpuLimits()
MAX_TENSORS = 32
"""The largest number of tensors that a function takes and returns, even if the target allows more.

The time to generate the function's code grows with the square of this number.
"""


@dataclass(frozen=True)
class GpuLimits:
    """The limits of a GPU: the target's limits of a block of threads, and the other numbers of a mid-range card."""

    threads: int
    """The largest number of threads in a block."""
    shared_bytes: int
    """The largest amount of shared memory of a block, in bytes."""
    launched_bytes: int = 48 << 10
    """The largest amount of shared memory that a launch may ask for, in bytes."""
    multiprocessors: int = 64
    """The number of multiprocessors; tiles that keep this many busy also fit cards with more."""
    threads_at_once: int = 2048
    """The largest number of threads that run at once on a multiprocessor."""
    shared_at_once: int = 200 << 10
    """The size of a multiprocessor's shared memory, in bytes."""
    latency: int = 400
    """The cycles that a load from the second-level cache takes; this cache has the output of the last kernel."""
    barrier: int = 300
    """The cycles of a barrier and the first loads after it."""


_MULTIPROCESSORS = {"sm_75": 40, "sm_80": 108, "sm_86": 64, "sm_87": 16, "sm_89": 100, "sm_90": 132}
"""The approximate number of multiprocessors of the cards of each architecture.

If tiles stage their operands in shared memory, a few more blocks than this cost a full extra wave.
"""

_LAUNCHED_KIB = {"sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_89": 99, "sm_90": 227, "sm_100": 227, "sm_120": 99}
"""The largest shared memory of a launch on the cards of each architecture: CUDA C++ Programming Guide, Table 30
(Technical Specifications per Compute Capability)."""
_WITHOUT_ASKING = 48 << 10
"""The shared memory that a kernel has without asking, on every card; targets with less want less."""


def limits_of(attributes: Mapping[str, Any]) -> GpuLimits:
    """Return the limits of a GPU target, which states both, and defaults of a mid-range card for the rest."""
    shared = int(attributes["max_shared_memory_per_block"])
    return GpuLimits(int(attributes["max_threads_per_block"]), shared, launched_bytes=shared)


def staging_limits(attributes: Mapping[str, Any]) -> GpuLimits:
    """Return the limits of a GPU target, with the multiprocessors and the launches of its architecture."""
    arch, limits = str(attributes.get("arch", "")).rstrip("af"), limits_of(attributes)
    launched = limits.shared_bytes
    if launched >= _WITHOUT_ASKING:
        launched = max(launched, _LAUNCHED_KIB.get(arch, 0) << 10)
    known = _MULTIPROCESSORS.get(arch, GpuLimits.multiprocessors)
    return replace(limits, launched_bytes=launched, multiprocessors=known)
