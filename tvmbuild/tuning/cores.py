"""The split of the cores into timing and building cores. No other program part runs on a core that times."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cores:
    """The ``timing`` cores, which run candidates, and the ``building`` cores, which search and build.

    They are disjoint if there are enough cores.
    """

    timing: tuple[int, ...]
    building: tuple[int, ...]

    @property
    def overlap(self) -> bool:
        """Return whether the next batch is built while this batch is timed, because no core does both."""
        return not set(self.timing) & set(self.building)


def share_cores(threads: int, siblings: Callable[[int], frozenset[int]] | None = None) -> Cores:
    """Split this process's cores into timing and building cores for a target with that many ``threads``.

    The first cores time, because TVM's runtime binds its threads to them. ``siblings`` returns the hardware threads
    that share a core; timing and building never share a core. If no core is left for building, or the process may not
    use the first cores, all cores do both.
    """
    cores = tuple(sorted(os.sched_getaffinity(0)))
    timing = cores[:threads]
    taken = frozenset(timing).union(*map(siblings or _read_siblings, timing))
    building = tuple(core for core in cores if core not in taken)
    if building and timing == tuple(range(threads)):
        return Cores(timing, building)
    return Cores(cores, cores)


def all_cores() -> Cores:
    """Return a split with all of this process's cores as builders, for candidates that are timed elsewhere."""
    return Cores((), tuple(sorted(os.sched_getaffinity(0))))


def _read_siblings(core: int) -> frozenset[int]:
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text()
    except OSError:
        return frozenset({core})
    bounds = (part.partition("-") for part in text.strip().split(","))
    return frozenset(number for first, _, last in bounds for number in range(int(first), int(last or first) + 1))
