"""Which cores time candidates and which build them: nothing else runs on the cores of a timing."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Cores:
    """``timing``: the target's threads run there. ``building``: search and builders; disjoint where cores allow."""

    timing: tuple[int, ...]
    building: tuple[int, ...]

    @property
    def overlap(self) -> bool:
        """Whether the next batch is built while this one is timed; else one waits for the other."""
        return not set(self.timing) & set(self.building)


def share_cores(threads: int) -> Cores:
    """Return the split of this process's cores for a target of that many ``threads``.

    The first ones time: TVM's runtime binds its threads there.
    """
    cores = tuple(sorted(os.sched_getaffinity(0)))
    if len(cores) > threads and cores[:threads] == tuple(range(threads)):
        return Cores(cores[:threads], cores[threads:])
    return Cores(cores, cores)
