"""The gate of frames and results: the package's results for a randomly drawn frame are compared with plain NumPy.

The input that it prepares must be the reference's, and its results must be those of its own outputs. The outputs
themselves are compared by the gate of ``main``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.progress import report_progress
from tvmbuild.benchmarking.frames.checks import find_difference
from tvmbuild.benchmarking.frames.drawing import draw_frame
from tvmbuild.benchmarking.frames.preparation import compare_input, prepare
from tvmbuild.benchmarking.frames.references import (
    ResultReference,
    choose_thresholds,
    explain_lack,
    find_reference,
    score_of,
    widen,
)
from tvmbuild.benchmarking.frames.results import FrameCheck
from tvmbuild.benchmarking.frames.way import Decoding, find_input, list_decodings
from tvmbuild.devices.frame_worker import Found, FrameWorker, Thresholds, find_results
from tvmbuild.devices.model_worker import Worker
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.result_arrays import find_adjustable

_REMEDY = "if the model in models.yaml is unchanged, this is a bug in tvmbuild, please report it; meanwhile leave out "


OWN = Thresholds()
"""The package's own thresholds."""


@dataclass(frozen=True)
class Checked:
    """The outcome of the gate."""

    check: FrameCheck
    notes: tuple[str, ...] = ()
    """The parts that were not compared, each with the reason."""
    worker: FrameWorker | None = None
    """The worker with the frames that were drawn. None: the package takes none, or the device cannot run them."""
    thresholds: Thresholds = OWN
    """Thresholds with which the first frame has results."""
    found: int | None = None
    """The number of results in the first frame with these thresholds."""


def describe_frame(frame: Frame) -> str:
    """Return a frame's encoding, shape and interpolation."""
    return f"{frame.encoding} {list(frame.shape)}, {frame.interpolation}"


def check_frames(info: PackageInfo, worker: Worker, who: str, lacks: str | None = None) -> Checked | None:
    """Compare the frames and results of the package in ``worker`` with the reference.

    Return None if it takes no frames and makes no results. ``who`` names the stage and the cell. ``lacks`` is the
    reason why the worker's device cannot run frames, which becomes a note. Raises TvmbuildError if something differs.
    """
    if not info.frames and not info.postprocess:
        return None
    if lacks is not None:
        note = f"frames and results are not measured on this device: {lacks}"
        return Checked(FrameCheck(0, 0, 0.0, 0.0, None), (note,))
    report_progress("comparing frames and results with the reference")
    gate = _Gate(info, who)
    if info.frames:
        return gate.check_frames(worker)
    return gate.check_outputs(worker)


@dataclass(frozen=True)
class _Case:
    """Outputs in float64, and the function that returns the package's results in them by their kinds."""

    where: str
    outputs: Mapping[str, np.ndarray]
    find: Callable[[Thresholds], Found]


class _Gate:
    def __init__(self, info: PackageInfo, who: str) -> None:
        self.info, self.who = info, who
        self.steps = self.score_error = 0.0
        self.place_error: float | None = None
        self.results = 0
        self.notes: dict[str, None] = {}

    def check_frames(self, worker: Worker) -> Checked:
        """Compare each frame of the package. All are compared, because each one has kernels of its own."""
        data = [draw_frame(frame) for frame in self.info.frames]
        frames = FrameWorker(worker, data)
        thresholds, found = OWN, None
        for number, (frame, each) in enumerate(zip(self.info.frames, data, strict=True)):
            arrays = frames.compute(number)
            outputs = self._split(arrays, "output:")
            self._check_input(frame, each, arrays["input"])
            if not self.info.postprocess:
                self._compare_outputs(frame, self._split(arrays, "frame:"), outputs)
            case = _Case(describe_frame(frame), widen(outputs), partial(frames.find, number))
            asked, count = self._check_all(list_decodings(self.info, frame), case)
            if number == 0:
                thresholds, found = asked, count
        return Checked(self._summarize(len(data)), tuple(self.notes), frames, thresholds, found)

    def check_outputs(self, worker: Worker) -> Checked:
        """Compare the results in the outputs for the reference's inputs."""
        case = _Case("the reference's inputs", widen(worker.outputs()), partial(find_results, worker))
        self._check_all(list_decodings(self.info), case)
        untimed = "no frame is timed: the model's `preprocess` names no `frame`"
        return Checked(self._summarize(0), (*self.notes, *((untimed,) if self.results else ())))

    def _check_all(self, decodings: Sequence[Decoding], case: _Case) -> tuple[Thresholds, int | None]:
        """Compare the results of each kind; return the thresholds of the first one, and the number of all results."""
        chosen, total = OWN, None
        for decoding in decodings:
            reference = find_reference(decoding)
            if reference is None:
                self.notes[explain_lack(decoding)] = None
                continue
            is_adjustable = decoding.asked is find_adjustable(self.info.postprocess)
            better = choose_thresholds(decoding, case.outputs) if is_adjustable else OWN
            total = (total or 0) + self._check_results(decoding, case, reference, better)
            chosen = better if is_adjustable else chosen
        return chosen, total

    def _check_input(self, frame: Frame, data: np.ndarray, got: np.ndarray) -> None:
        into = find_input(self.info)
        check = compare_input(got, prepare(frame, data, into), into)
        self.steps = max(self.steps, check.largest_steps)
        if check.problem is not None:
            self._fail("prepares a frame wrongly", describe_frame(frame), check.problem, "`frame`")

    def _compare_outputs(self, frame: Frame, got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> None:
        for name, value in want.items():
            if (apart := find_difference(got[name], value)) is not None:
                told = f"output {name} differs from that for the prepared input by {apart:.3g}"
                self._fail("computes other outputs of a frame", describe_frame(frame), told, "`frame`")

    def _check_results(self, decoding: Decoding, case: _Case, reference: ResultReference, better: Thresholds) -> int:
        """Compare results with the package's own thresholds and with better ones; return the better ones' count."""
        count = 0
        for asked in dict.fromkeys((OWN, better)):
            found = case.find(asked)[decoding.name]
            check = reference.check(decoding, case.outputs, asked, found)
            self.results, count = self.results + check.count, check.count
            self.score_error = max(self.score_error, check.score_error)
            if check.place_error is not None:
                self.place_error = max(self.place_error or 0.0, check.place_error)
            if check.problem is not None:
                where = f"{case.where}, score {score_of(decoding.asked, asked.score):g}"
                self._fail("makes wrong results", where, check.problem, "`postprocess`")
        return count

    def _fail(self, does: str, where: str, problem: str, key: str) -> None:
        raise TvmbuildError(f"{self.who}: the package {does} ({where}): {problem}", f"{_REMEDY}{key}")

    def _summarize(self, frames: int) -> FrameCheck:
        return FrameCheck(frames, self.results, self.steps, self.score_error, self.place_error)

    @staticmethod
    def _split(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
