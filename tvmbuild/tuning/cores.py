"""Which cores time candidates and which build them: nothing else runs on the cores of a timing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cores:
    """``timing``: the target's threads run there. ``building``: search and builders; disjoint where cores allow."""

    timing: tuple[int, ...]
    building: tuple[int, ...]

    @property
    def overlap(self) -> bool:
        """Whether the next batch is built while this one is timed; else one waits for the other."""
        return not set(self.timing) & set(self.building)


def share_cores(threads: int, siblings: Callable[[int], frozenset[int]] | None = None) -> Cores:
    """Return the split of this process's cores for a target of that many ``threads``.

    The first ones time: TVM's runtime binds its threads there. ``siblings`` names the hardware threads that share a
    core with one; what times and what builds never do.
    """
    cores = tuple(sorted(os.sched_getaffinity(0)))
    timing = cores[:threads]
    taken = frozenset(timing).union(*map(siblings or _read_siblings, timing))
    building = tuple(core for core in cores if core not in taken)
    if building and timing == tuple(range(threads)):
        return Cores(timing, building)
    return Cores(cores, cores)


def all_cores() -> Cores:
    """Return this process's cores as builders: other machines time."""
    return Cores((), tuple(sorted(os.sched_getaffinity(0))))


def _read_siblings(core: int) -> frozenset[int]:
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text()
    except OSError:
        return frozenset({core})
    bounds = (part.partition("-") for part in text.strip().split(","))
    return frozenset(number for first, _, last in bounds for number in range(int(first), int(last or first) + 1))
