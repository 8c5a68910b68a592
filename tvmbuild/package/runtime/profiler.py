"""Time every operator of a package while the whole model runs.

TVM 0.27 has no profiler for Relax: its virtual machine calls a hook before and after each of its calls instead. Timing
there, and not each operator alone in a loop, leaves caches as the model finds them. A device with a clock of its own
tells the times itself (vulkan/timestamps.py): on the host only launches would be seen, or a wait after each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from tvmbuild.package.profile import Clock, Event, Profile, summarize_runs
from tvmbuild.package.runtime.session import Session

WARM_UP_CALLS = 3
_GRAPH = "vm.builtin.cuda_graph.run_or_capture"
"""What is captured inside it cannot be waited for; replayed, it is one event."""


def profile_operators(
    session: Session,
    inputs: Mapping[str, np.ndarray],
    repeat: int,
    beat: Callable[[], None] = lambda: None,
) -> Profile:
    """Run the model ``repeat`` times after a warm-up; return one row a function, the longest first.

    ``beat`` is called between runs.
    """
    name, recorder = _choose_recorder(session)
    call = session.bind_instrumented(inputs, recorder.note)
    runs = []
    for index in range(WARM_UP_CALLS + repeat):
        events = recorder.run(call)
        if index >= WARM_UP_CALLS:
            runs.append(events)
        beat()
    return Profile(summarize_runs(runs, session.info.operators or ()), name)


class _Recorder(Protocol):
    """A hook for the virtual machine, which keeps the events of a run. A call inside a call is not counted twice."""

    def run(self, run_once: Callable[[], object]) -> list[Event]:
        """Return the events of one run, in order."""

    def note(self, function: object, name: str, before: bool, result: object, *arguments: object) -> None:
        """Be told that a call begins or has ended."""


def _choose_recorder(session: Session) -> tuple[Clock, _Recorder]:
    if session.info.target.kind == "vulkan":
        from tvmbuild.package.runtime.vulkan.timestamps import DeviceClock, has_timestamps  # noqa: PLC0415 - only these

        if has_timestamps(session.device.index):
            operators = session.info.operators
            kernels = None if operators is None else {info.function for info in operators}
            return "device", DeviceClock(session.device.index, session.wait, kernels)
    return "host", _HostClock(session.wait)


class _HostClock:
    """The host's times, with a wait for the device before and after each call."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self._events: list[Event] = []
        self._wait = wait
        self._in_graph = False
        self._open: list[list[int]] = []  # [start, nanoseconds of calls inside] of each call that has not ended

    def run(self, run_once: Callable[[], object]) -> list[Event]:
        """Return the events of one run, in the order in which they ended."""
        self._events = []
        run_once()
        return self._events

    def note(self, _function: object, name: str, before: bool, _result: object, *_arguments: object) -> None:
        """Be told that a call begins or has ended."""
        if self._in_graph and name != _GRAPH:
            return
        self._in_graph = before and name == _GRAPH
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
