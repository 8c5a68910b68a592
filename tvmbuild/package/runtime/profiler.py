"""Timing of every operator of a package while the whole model runs.

TVM 0.27 has no profiler for Relax: its virtual machine calls a hook before and after each of its calls instead. Timing
in the hook, and not each operator alone in a loop, leaves the caches as the model finds them. A device with its own
clock reports the times itself (vulkan/timestamps.py, cuda/card_clock.py): the host would see only launches, or a wait
after each, and nothing inside a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.profile import Clock, Event, GraphTime, Profile, summarize_runs
from tvmbuild.package.runtime.host_clock import HostClock
from tvmbuild.package.runtime.session import Session

WARM_UP_CALLS = 3


def profile_operators(
    session: Session,
    inputs: Mapping[str, np.ndarray],
    repeat: int,
    beat: Callable[[], None] = lambda: None,
) -> Profile:
    """Run the model ``repeat`` times after a warm-up and return one row a function, the longest first.

    ``beat`` is called between runs.
    """
    clock, recorder, remarks = _choose_recorder(session)
    call = session.bind_instrumented(inputs, recorder.note)
    runs = []
    for index in range(WARM_UP_CALLS + repeat):
        events = recorder.run(call)
        if index >= WARM_UP_CALLS:
            runs.append(events)
        beat()
    graph = recorder.finish(repeat) if isinstance(recorder, _GraphRecorder) else None
    return Profile(summarize_runs(runs, session.info.operators or ()), clock, graph, remarks)


class _Recorder(Protocol):
    """A hook for the virtual machine, which keeps the events of a run. A call inside a call is not counted twice."""

    def run(self, run_once: Callable[[], object]) -> list[Event]:
        """Return the events of one run, in order."""

    def note(self, function: object, name: str, before: bool, result: object, *arguments: object) -> None:
        """Note that a call begins or has ended."""


@runtime_checkable
class _GraphRecorder(Protocol):
    """A recorder that sees the inside of a CUDA graph."""

    def finish(self, runs: int) -> GraphTime | None:
        """Stop, and return the time of the graph in the last ``runs``."""


class _Chosen(NamedTuple):
    clock: Clock
    recorder: _Recorder
    remarks: tuple[str, ...] = ()


def _choose_recorder(session: Session) -> _Chosen:
    operators = session.info.operators
    kernels = None if operators is None else {info.function for info in operators}
    if session.info.target.kind == "vulkan":
        from tvmbuild.package.runtime.vulkan.timestamps import DeviceClock, has_timestamps  # noqa: PLC0415 - Vulkan

        if has_timestamps(session.device.index):
            return _Chosen("device", DeviceClock(session.device.index, session.wait, kernels))
    if session.info.target.kind == "cuda":
        from tvmbuild.package.runtime.cuda.card_clock import CardClock  # noqa: PLC0415 - only CUDA

        try:
            return _Chosen("device", CardClock(session.wait, kernels))
        except TvmbuildError as error:
            return _Chosen("host", HostClock(session.wait), (_reason(error),))
    return _Chosen("host", HostClock(session.wait))


def _reason(error: TvmbuildError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
