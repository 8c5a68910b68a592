"""Calls in one process, timed in turns, so that a temporary disturbance of the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tvmbuild.benchmarking.statistics import Samples
from tvmbuild.package.timing import time_calls, warm_up

WARM_UP_S = 0.3


def time_in_turns(
    calls: Mapping[str, Callable[[], object]], rounds: int, repeat: int, rest_s: float = 0.0
) -> dict[str, Samples]:
    """Return each call's times, ``repeat`` in a round; each round begins with another call.

    Before a call's turn, the process sleeps ``rest_s``, in which the threads of the call before stop spinning.
    """
    for call in calls.values():
        warm_up(call, WARM_UP_S)
    names = list(calls)
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for index in range(rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            if rest_s:
                time.sleep(rest_s)
                calls[name]()
            taken[name].append(tuple(time_calls(calls[name], 1, repeat)))
    return {name: Samples(tuple(range(rounds)), tuple(each), 1) for name, each in taken.items()}
