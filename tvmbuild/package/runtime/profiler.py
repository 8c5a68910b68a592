"""Time every operator of a package while the whole model runs.

TVM 0.27 has no profiler for Relax: its virtual machine calls a hook before and after each of its calls instead. Timing
there, and not each operator alone in a loop, leaves caches as the model finds them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from tvmbuild.package.profile import Event, OperatorRow, summarize_runs
from tvmbuild.package.runtime.session import Session

WARM_UP_CALLS = 3
_GRAPH = "vm.builtin.cuda_graph.run_or_capture"
"""What is captured inside it cannot be waited for; replayed, it is one event."""


def profile_operators(
    session: Session,
    inputs: Mapping[str, np.ndarray],
    repeat: int,
    beat: Callable[[], None] = lambda: None,
) -> tuple[OperatorRow, ...]:
    """Run the model ``repeat`` times after a warm-up; return one row a function, the longest first.

    ``beat`` is called between runs.
    """
    recorder = _Recorder(session.wait)
    call = session.bind_instrumented(inputs, recorder.note)
    runs = []
    for index in range(WARM_UP_CALLS + repeat):
        recorder.events = []
        call()
        if index >= WARM_UP_CALLS:
            runs.append(recorder.events)
        beat()
    return summarize_runs(runs, session.info.operators or ())


class _Recorder:
    """The hook: keeps the events of a run. A call inside a call is not counted twice."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.events: list[Event] = []
        self._wait = wait
        self._in_graph = False
        self._open: list[list[int]] = []  # [start, nanoseconds of calls inside] of each call that has not ended

    def note(self, _function: object, name: str, before: bool, _result: object, *_arguments: object) -> None:
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
        self.events.append((str(name), end - start - inside))
        if self._open:
            self._open[-1][1] += end - start
