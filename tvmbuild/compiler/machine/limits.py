"""Hardware limits that the schedule rules assume.

Enter another machine's numbers here; packages that are built with them differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class CpuLimits:
    """The limits of a CPU whose target does not state them; the defaults fit the CPUs of ten years."""

    near_cache: int = 1 << 14
    """The number of bytes that stay in the first-level cache beside the data that stream through it."""
    near_rows: int = 1 << 15
    """The number of bytes of padded rows that stay in the first-level cache."""
    near_weights: int = 1 << 13
    """The number of a convolution's weights that do not overflow the first-level cache."""
    far_cache: int = 1 << 20
    """The number of bytes of intermediate results that are computed together: about half of a second-level cache."""
    fma_latency: int = 4
    """The cycles of a multiplication and an addition."""
    reading: float = 40e9
    """The bandwidth of memory, in bytes a second."""


USUAL_CPU = CpuLimits()
MAX_TENSORS = 32
"""The most tensors that a function takes and returns, even if the target allows more.

The time to generate the function's code grows with the square of this number.
"""


@dataclass(frozen=True)
class GpuLimits:
    """The limits of a GPU: the target's limits of a block of threads, and a middling card's other numbers."""

    threads: int
    """The most threads of a block."""
    shared_bytes: int
    """The most bytes of shared memory of a block."""
    multiprocessors: int = 64
    """The number of multiprocessors; tiles that keep this many busy also fit cards with more."""
    threads_at_once: int = 2048
    """The number of threads that run at once on a multiprocessor."""
    shared_at_once: int = 200 << 10
    """The bytes of shared memory of a multiprocessor."""
    latency: int = 400
    """The cycles from a load to its value in the second-level cache, where the last kernel's output is."""
    barrier: int = 300
    """The cycles of a barrier and the first loads after it."""


_MULTIPROCESSORS = {"sm_75": 40, "sm_80": 108, "sm_86": 64, "sm_87": 16, "sm_89": 100, "sm_90": 132}
"""The approximate number of multiprocessors of an architecture's cards.

If tiles stage their operands in shared memory, a few more blocks than this cost a full extra wave.
"""


def limits_of(attributes: Mapping[str, Any]) -> GpuLimits:
    """Return a GPU target's limits; a middling card gives those that the target does not state."""
    return GpuLimits(int(attributes["max_threads_per_block"]), int(attributes["max_shared_memory_per_block"]))


def staging_limits(attributes: Mapping[str, Any]) -> GpuLimits:
    """Return the same limits with the number of multiprocessors of the architecture."""
    known = _MULTIPROCESSORS.get(str(attributes.get("arch", "")), GpuLimits.multiprocessors)
    return replace(limits_of(attributes), multiprocessors=known)
