"""The commands of a worker process that take a camera's frames (:mod:`tvmbuild.devices.serve_model`)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tvmbuild.devices.energy import EnergyMeter
from tvmbuild.devices.heat import HeatWatch
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.timing import time_calls, warm_up

Command = Mapping[str, Any]
Beat = Callable[[], None]
Found = dict[str, list[dict[str, Any]]]
"""Kind of result → the results of this kind, each as a map of its fields."""


class Frames(Protocol):
    """The way from a frame to the result, with frames that are bound to it."""

    on_card: bool
    """True if a CUDA card computes, so that its energy counts."""

    def choose(self, number: int, score: float | None, overlap: float | None) -> None:
        """Choose the frame and the thresholds of `call` and `list_parts`."""

    def compute(self, number: int) -> dict[str, np.ndarray]:
        """Return the arrays of `FrameWorker.compute`."""

    def find(self, number: int, score: float | None, overlap: float | None) -> Found:
        """Return the results in a frame."""

    def call(self) -> object:
        """Make the result of the chosen frame."""

    def list_parts(self) -> Mapping[str, Callable[[], object]]:
        """Return name of a part → a function that does this part only, for the chosen frame."""


@runtime_checkable
class FrameTaker(Protocol):
    """A runner that takes frames."""

    def bind_frames(self, frames: Sequence[np.ndarray]) -> Frames:
        """Return the way from these frames to their results."""


@runtime_checkable
class ResultMaker(Protocol):
    """A runner that makes results of its outputs."""

    def find_in_outputs(self, score: float | None, overlap: float | None) -> Found:
        """Return the results in the outputs for the bound inputs."""


class FrameCommands:
    """The commands about frames of one worker. Their names are the keys of COMMANDS."""

    def __init__(self, runner: object) -> None:
        self._runner = runner
        self._frames: Frames | None = None

    @property
    def frames(self) -> Frames:
        """The frames that were bound."""
        if self._frames is None:
            raise ValueError("asked about frames before they were bound")
        return self._frames

    def bind_frames(self, command: Command, _beat: Beat) -> dict[str, object]:
        """Bind the frames in an .npz, which are named by their numbers."""
        if not isinstance(self._runner, FrameTaker):
            raise TvmbuildError("only packages take frames")
        with np.load(str(command["inputs"]), allow_pickle=False) as arrays:
            self._frames = self._runner.bind_frames([arrays[str(number)] for number in range(len(arrays.files))])
        return {}

    def compute_frame(self, command: Command, _beat: Beat) -> dict[str, object]:
        """Write the arrays that are made from a frame to an .npz."""
        arrays: dict[str, Any] = self.frames.compute(int(command["frame"]))
        np.savez(str(command["path"]), **arrays)
        return {}

    def find_in_frame(self, command: Command, _beat: Beat) -> dict[str, object]:
        """Return the results in a frame."""
        return {"results": self.frames.find(int(command["frame"]), command["score"], command["overlap"])}

    def find_in_outputs(self, command: Command, _beat: Beat) -> dict[str, object]:
        """Return the results in the outputs for the bound inputs."""
        if not isinstance(self._runner, ResultMaker):
            raise TvmbuildError("only packages make results")
        return {"results": self._runner.find_in_outputs(command["score"], command["overlap"])}

    def choose_frame(self, command: Command, _beat: Beat) -> dict[str, object]:
        """Choose the frame and the thresholds of the following calls."""
        self.frames.choose(int(command["frame"]), command["score"], command["overlap"])
        return {}

    def warm_up_frames(self, command: Command, beat: Beat) -> dict[str, object]:
        """Run calls for some seconds and return the time of the last one."""
        return {"ms": warm_up(self.frames.call, float(command["seconds"]), beat)}

    def time_frames(self, command: Command, beat: Beat) -> dict[str, object]:
        """Return samples of the time of calls."""
        return {"ms": time_calls(self.frames.call, int(command["number"]), int(command["repeat"]), beat)}

    def cost_of_frames(self, command: Command, beat: Beat) -> dict[str, object]:
        """Return the fields of a `Cost`."""
        seconds, least = float(command["seconds"]) / 2, int(command["calls"])
        parts = _time_parts(self.frames.list_parts(), seconds, least, beat)
        warm_up(self.frames.call, 0, beat)
        heat, meter = HeatWatch(), EnergyMeter(card=self.frames.on_card)
        start, cpu, calls = time.monotonic(), time.process_time(), 0
        while calls < least or time.monotonic() - start < seconds:
            time_calls(self.frames.call, 1, 1, beat)
            calls += 1
        cpu_ms, joules = (time.process_time() - cpu) * 1000 / calls, meter.read()
        return {
            "parts_ms": parts,
            "cpu_ms": cpu_ms,
            "joules": None if joules is None else joules / calls,
            "throttled": heat.count_throttled(),
            "clock": heat.read_clock(),
        }


def _time_parts(parts: Mapping[str, Callable[[], object]], seconds: float, calls: int, beat: Beat) -> dict[str, float]:
    """Return the median time of each part in ms. The parts take turns of ``calls`` calls.

    If there are several calls in a turn, the first one is not counted, because it finds another part's caches.
    """
    taken: dict[str, list[float]] = {name: [] for name in parts}
    end = time.monotonic() + seconds
    while not all(taken.values()) or time.monotonic() < end:
        for name, part in parts.items():
            samples = time_calls(part, 1, calls, beat)
            taken[name] += samples[1:] or samples
    return {name: statistics.median(samples) for name, samples in taken.items()}


COMMANDS: dict[str, Callable[[FrameCommands, Command, Beat], dict[str, object]]] = {
    "bind_frames": FrameCommands.bind_frames,
    "compute_frame": FrameCommands.compute_frame,
    "find_in_frame": FrameCommands.find_in_frame,
    "find_in_outputs": FrameCommands.find_in_outputs,
    "choose_frame": FrameCommands.choose_frame,
    "warm_up_frames": FrameCommands.warm_up_frames,
    "time_frames": FrameCommands.time_frames,
    "cost_of_frames": FrameCommands.cost_of_frames,
}
"""The commands about frames, by the value of the command's key `do`."""
