"""Times of a package's functions by the host's clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from tvmbuild.package.profile import GRAPH_CALL, Event


def _all(_name: str) -> bool:
    return True


class HostClock:
    """A recorder of a package's calls by the host's clock.

    It records the calls of functions for which ``noted`` returns True, and calls ``wait``, which waits for the device,
    before and after each of them.
    """

    def __init__(self, wait: Callable[[], None], noted: Callable[[str], bool] = _all) -> None:
        self._events: list[Event] = []
        self._wait, self._noted = wait, noted
        self._in_graph = False
        self._open: list[list[int]] = []  # [start, nanoseconds of calls inside] of each call that has not ended

    def run(self, run_once: Callable[[], object]) -> list[Event]:
        """Run the model once by ``run_once`` and return the run's events, in the order in which the calls ended."""
        self._events = []
        run_once()
        return self._events

    def note(self, _function: object, name: str, before: bool, _result: object, *_arguments: object) -> None:
        """Record that a call begins (``before``) or has ended. TVM's virtual machine calls this."""
        if self._in_graph and name != GRAPH_CALL:
            return  # nothing can wait inside a capture
        self._in_graph = before and name == GRAPH_CALL
        if not self._noted(str(name)):
            return
        self._wait()
        if before:
            self._open.append([0, 0])
            self._open[-1][0] = time.perf_counter_ns()  # last, so that the hook is not in it
            return
        end = time.perf_counter_ns()
        start, inside = self._open.pop()
        self._events.append((str(name), end - start - inside))
        if self._open:
            self._open[-1][1] += end - start
