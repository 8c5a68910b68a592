"""What rules take a machine to have. Another machine's numbers are given here; its packages are then other ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class CpuLimits:
    """Of a CPU, where the target's attributes do not tell; the defaults fit those of ten years."""

    near_cache: int = 1 << 14
    """Bytes that stay in the first-level cache beside what streams through it."""
    near_rows: int = 1 << 15
    """Bytes of padded rows that stay in the first-level cache."""
    near_weights: int = 1 << 13
    """Elements of a convolution's weights that do not overflow the first-level cache."""
    far_cache: int = 1 << 20
    """Bytes of intermediate results that are done together: about half of a second-level cache."""
    fma_latency: int = 4
    """Cycles of a multiplication and an addition."""
    reading: float = 40e9
    """Bytes a second from memory."""


USUAL_CPU = CpuLimits()
MAX_TENSORS = 32
"""That a function takes and returns, where a target allows more too: the time that making its code takes grows with
the square of them."""


@dataclass(frozen=True)
class GpuLimits:
    """Of a GPU: what the target allows a block of threads, and a middling card."""

    threads: int
    """Of a block."""
    shared_bytes: int
    """Of a block."""
    multiprocessors: int = 64
    """Tiles that keep so many busy also fit more."""
    threads_at_once: int = 2048
    """On a multiprocessor."""
    shared_at_once: int = 200 << 10
    """Bytes of shared memory of a multiprocessor."""
    latency: int = 400
    """Cycles from a load to its value where that is in the second-level cache, as what the last kernel wrote is."""
    barrier: int = 300
    """Cycles for a barrier and the first loads after it."""


_MULTIPROCESSORS = {"sm_75": 40, "sm_80": 108, "sm_86": 64, "sm_87": 16, "sm_89": 100, "sm_90": 132}
"""Of cards of an architecture, about: where tiles stage their operands in shared memory, few more blocks than these
cost a whole turn of all."""


def limits_of(attributes: Mapping[str, Any]) -> GpuLimits:
    """Return a GPU target's limits; what it does not tell is a middling card's."""
    return GpuLimits(int(attributes["max_threads_per_block"]), int(attributes["max_shared_memory_per_block"]))


def staging_limits(attributes: Mapping[str, Any]) -> GpuLimits:
    """Return the same with the multiprocessors of the architecture."""
    known = _MULTIPROCESSORS.get(str(attributes.get("arch", "")), GpuLimits.multiprocessors)
    return replace(limits_of(attributes), multiprocessors=known)
