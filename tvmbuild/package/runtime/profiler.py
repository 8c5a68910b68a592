"""Timing of every operator of a package while the whole model runs.

TVM 0.27 has no profiler for Relax, but its virtual machine calls a hook before and after each of its calls. The hook
takes the times. Because operators are not timed alone in a loop, the caches are in the state of a real run. A device
with its own clock reports the times itself (vulkan/timestamps.py, cuda/card_clock.py): the host's clock would show only
launches, or kernels with a wait after each, and nothing inside a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.operator_info import OperatorInfo
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
    """Run the model ``repeat`` times after a warm-up, and return the time of each function, the longest first.

    ``beat`` is called after each run.
    """
    operators = session.info.at_inputs({name: value.shape for name, value in inputs.items()}).operators
    clock, recorder, remarks = _choose_recorder(session, operators)
    call = session.bind_instrumented(inputs, recorder.note)
    runs = []
    for index in range(WARM_UP_CALLS + repeat):
        events = recorder.run(call)
        if index >= WARM_UP_CALLS:
            runs.append(events)
        beat()
    graph = recorder.finish(repeat) if isinstance(recorder, _GraphRecorder) else None
    return Profile(summarize_runs(runs, operators or ()), clock, graph, remarks)


class _Recorder(Protocol):
    """A recorder of the virtual machine's calls. An event's time does not include the calls inside the call."""

    def run(self, run_once: Callable[[], object]) -> list[Event]:
        """Run the model once by ``run_once`` and return the events of the run."""

    def note(self, function: object, name: str, before: bool, result: object, *arguments: object) -> None:
        """Record that a call begins (``before``) or has ended. TVM's virtual machine calls this."""


@runtime_checkable
class _GraphRecorder(Protocol):
    """A recorder that can time the nodes of a CUDA graph."""

    def finish(self, runs: int) -> GraphTime | None:
        """Stop recording, and return the time of the CUDA graphs in the last ``runs`` runs, or None without a graph."""


class _Chosen(NamedTuple):
    clock: Clock
    recorder: _Recorder
    remarks: tuple[str, ...] = ()


def _choose_recorder(session: Session, operators: Sequence[OperatorInfo] | None) -> _Chosen:
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
