"""The part of a worker that takes a camera's frames: the parent's side of :mod:`tvmbuild.devices.serve_frames`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tvmbuild.devices.model_worker import Worker
from tvmbuild.package.inputs import write_arrays

Found = Mapping[str, Sequence[dict[str, Any]]]
"""Kind of result → the results of this kind, each as a map of its fields."""


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of a call with a frame. None stands for those of the package."""

    score: float | None = None
    overlap: float | None = None


@dataclass(frozen=True)
class Cost:
    """The cost of calls with a frame, and the state of the machine that they ran on. None: the system does not say."""

    parts_ms: Mapping[str, float]
    """Name of a part: `prepare`, `network`, and `result` if the package makes one → the median time of it by itself."""
    cpu_ms: float
    """The CPU time of the process for one frame, over all its threads."""
    joules: float | None
    """The energy for one frame, of all programs on the machine's CPU and, for CUDA, on its GPU."""
    throttled: int | None
    """The number of times that heat slowed a core down meanwhile."""
    clock: float | None
    """The fastest core's clock rate at the end, over the highest that the CPU has."""


class FrameWorker:
    """A worker whose calls take a frame and return the result. It is timed as a `Worker` is.

    ``frames`` are arrays of bytes, one for each frame of the package. A method raises as those of `Worker` do.
    """

    def __init__(self, worker: Worker, frames: Sequence[np.ndarray]) -> None:
        self._worker = worker
        with TemporaryDirectory(prefix="tvmbuild-frames-") as folder:
            given = Path(folder, "frames.npz")
            write_arrays(given, {str(number): frame for number, frame in enumerate(frames)})
            worker.ask({"do": "bind_frames", "inputs": str(given)})

    def compute(self, number: int) -> dict[str, np.ndarray]:
        """Return the arrays of a frame: `input`, and `output:<name>` that the network makes of this input.

        A package without a result also has `frame:<name>`, the outputs of the call that takes the frame.
        """
        with TemporaryDirectory(prefix="tvmbuild-frames-") as folder:
            path = Path(folder, "arrays.npz")
            self._worker.ask({"do": "compute_frame", "frame": number, "path": str(path)})
            with np.load(path, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}

    def find(self, number: int, thresholds: Thresholds) -> Found:
        """Return the results in a frame."""
        return _list_results(self._ask("find_in_frame", number, thresholds))

    def choose(self, number: int, thresholds: Thresholds) -> None:
        """Choose the frame and the thresholds of the calls that are timed."""
        self._ask("choose_frame", number, thresholds)

    def warm_up(self, seconds: float) -> float:
        """Run calls for about ``seconds`` and return the time of the last one in ms."""
        return float(str(self._worker.ask({"do": "warm_up_frames", "seconds": seconds})["ms"]))

    def time(self, number: int, repeat: int) -> list[float]:
        """Return ``repeat`` samples in ms, each the mean time of ``number`` calls."""
        samples = self._worker.ask({"do": "time_frames", "number": number, "repeat": repeat}, calls=number)["ms"]
        if not isinstance(samples, list):
            raise TypeError(f"a worker answered {samples!r}")
        return [float(sample) for sample in samples]

    def measure_cost(self, seconds: float, calls: int) -> Cost:
        """Return the cost of calls over about ``seconds``, but of at least ``calls``."""
        told: dict[str, Any] = self._worker.ask({"do": "cost_of_frames", "seconds": seconds, "calls": calls})
        return Cost(**told)

    def pause(self) -> None:
        """Stop the process, so that it takes no CPU time."""
        self._worker.pause()

    def resume(self) -> None:
        """Let the stopped process continue."""
        self._worker.resume()

    def _ask(self, what: str, number: int, thresholds: Thresholds) -> dict[str, object]:
        asked = {"score": thresholds.score, "overlap": thresholds.overlap}
        return self._worker.ask({"do": what, "frame": number, **asked})


def find_results(worker: Worker, thresholds: Thresholds) -> Found:
    """Return the results in the outputs for the reference's inputs."""
    asked = {"score": thresholds.score, "overlap": thresholds.overlap}
    return _list_results(worker.ask({"do": "find_in_outputs", **asked}))


def _list_results(answer: Mapping[str, object]) -> Found:
    found = answer["results"]
    if not isinstance(found, dict):
        raise TypeError(f"a worker answered {found!r}")
    return found
