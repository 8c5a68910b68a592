"""The gate of frames and results: what a package makes of a drawn frame is compared with plain NumPy.

The input that it prepares must be the reference's, and its results must be those of its own outputs. The outputs
themselves are compared by the gate of ``main``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.progress import report_progress
from tvmbuild.benchmarking.frames.checks import ResultCheck
from tvmbuild.benchmarking.frames.drawing import draw_frame
from tvmbuild.benchmarking.frames.preparation import compare_input, prepare
from tvmbuild.benchmarking.frames.references import choose_thresholds, explain_lack, find_reference, widen
from tvmbuild.benchmarking.frames.results import FrameCheck
from tvmbuild.benchmarking.frames.way import Decoding, find_decoding, find_input
from tvmbuild.devices.frame_worker import FrameWorker, Thresholds, find_results
from tvmbuild.devices.model_worker import Worker
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo

_REMEDY = (
    "if the model in models.yaml is unchanged, this is a bug in tvmbuild, please report it; meanwhile leave out "
)
_OUTPUTS_ROOM = 1e-5
"""The difference of outputs that two calls of the same network may have, as a share of the largest."""


@dataclass(frozen=True)
class Checked:
    """The outcome of the gate."""

    check: FrameCheck
    notes: tuple[str, ...] = ()
    """What was not compared, with the reason."""
    worker: FrameWorker | None = None
    """The worker with the frames that were drawn. None: the package takes none, or the device cannot run them."""
    thresholds: Thresholds = Thresholds()
    """Thresholds with which the first frame has results."""
    found: int | None = None
    """The number of results in the first frame with these thresholds."""


def describe_frame(frame: Frame) -> str:
    """Return a frame's encoding, shape and interpolation."""
    return f"{frame.encoding} {list(frame.shape)}, {frame.interpolation}"


def check_frames(info: PackageInfo, worker: Worker, who: str) -> Checked | None:
    """Compare what the package of ``worker`` makes of frames. Return None if it takes none and makes no results.

    ``who`` names the stage and the cell. Raises TvmbuildError if the package makes something wrong.
    """
    if not info.frames and info.postprocess is None:
        return None
    report_progress("comparing frames and results with the reference")
    gate = _Gate(info, who)
    if info.frames:
        return gate.check_frames(worker)
    return gate.check_outputs(worker)


class _Gate:
    def __init__(self, info: PackageInfo, who: str) -> None:
        self.info, self.who = info, who
        self.steps = self.unlike = self.score_error = 0.0
        self.place_error: float | None = None
        self.results = 0
        self.notes: dict[str, None] = {}

    def check_frames(self, worker: Worker) -> Checked:
        """Compare each frame of the package. All are compared, because each one has kernels of its own."""
        data = [draw_frame(frame) for frame in self.info.frames]
        frames = FrameWorker(worker, data)
        thresholds, found = Thresholds(), None
        for number, (frame, each) in enumerate(zip(self.info.frames, data, strict=True)):
            arrays = frames.compute(number)
            outputs = self._split(arrays, "output:")
            self._check_input(frame, each, arrays["input"])
            decoding = find_decoding(self.info, frame)
            if decoding is None:
                self._compare_outputs(frame, self._split(arrays, "frame:"), outputs)
                continue
            if find_reference(decoding) is None:
                self.notes[explain_lack(decoding)] = None
                continue
            chosen = choose_thresholds(decoding, outputs)
            counts = [
                self._check_results(describe_frame(frame), decoding, outputs, asked, frames.find(number, asked))
                for asked in dict.fromkeys((Thresholds(), chosen))
            ]
            if number == 0:
                thresholds, found = chosen, counts[-1]
        return Checked(self._summarize(len(data)), tuple(self.notes), frames, thresholds, found)

    def check_outputs(self, worker: Worker) -> Checked:
        """Compare the results in the outputs for the reference's inputs."""
        decoding = find_decoding(self.info)
        if decoding is None or find_reference(decoding) is None:
            return Checked(self._summarize(0), (explain_lack(decoding),) if decoding else ())
        outputs = worker.outputs()
        for asked in dict.fromkeys((Thresholds(), choose_thresholds(decoding, outputs))):
            self._check_results("the reference's inputs", decoding, outputs, asked, find_results(worker, asked))
        return Checked(self._summarize(0), ("no time of frames: the model names no `frame`",))

    def _check_input(self, frame: Frame, data: np.ndarray, got: np.ndarray) -> None:
        into = find_input(self.info)
        check = compare_input(got, prepare(frame, data, into), into)
        self.steps, self.unlike = max(self.steps, check.largest_steps), max(self.unlike, check.unlike)
        if check.problem is not None:
            self._fail("prepares a frame wrongly", describe_frame(frame), check.problem, "`frame`")

    def _compare_outputs(
        self, frame: Frame, got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]
    ) -> None:
        for name, value in want.items():
            room = _OUTPUTS_ROOM * float(np.max(np.abs(value.astype(np.float64)), initial=0.0))
            apart = np.abs(got[name].astype(np.float64) - value.astype(np.float64))
            if not np.all((apart <= room) | (got[name] == value)):
                told = f"output {name} differs from that for the prepared input by {np.nanmax(apart):.3g}"
                self._fail("computes other outputs of a frame", describe_frame(frame), told, "`frame`")

    def _check_results(
        self, where: str, decoding: Decoding, outputs: Mapping[str, np.ndarray], asked: Thresholds, found: Sequence
    ) -> int:
        reference = find_reference(decoding)
        if reference is None:
            raise ValueError("asked to compare results without a reference")
        check: ResultCheck = reference.check(decoding, widen(outputs), asked, found)
        self.results += check.count
        self.score_error = max(self.score_error, check.score_error)
        if check.place_error is not None:
            self.place_error = max(self.place_error or 0.0, check.place_error)
        if check.problem is not None:
            score = decoding.asked.score if asked.score is None else asked.score
            self._fail("makes wrong results", f"{where}, score {score:g}", check.problem, "`postprocess`")
        return check.count

    def _fail(self, does: str, where: str, problem: str, key: str) -> None:
        raise TvmbuildError(f"{self.who}: the package {does} ({where}): {problem}", f"{_REMEDY}{key}")

    def _summarize(self, frames: int) -> FrameCheck:
        return FrameCheck(frames, self.results, self.steps, self.unlike, self.score_error, self.place_error)

    @staticmethod
    def _split(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
