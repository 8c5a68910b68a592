"""Detectors that end with their own suppression: packages make boxes of as many rows as there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from detector_tails import detect, torchvision, ultralytics, yolov7
from frame_packages import DEVICES, FRAMES, SIZE, build, draw_frame

from tvmbuild.base.postprocess_specs import Boxes, Classes, Postprocess, Segmentation
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.results import Box, Results
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler
SEPARATE = ("end1", "end0", "end2")
ENDS: dict[str, tuple[Callable[[], onnx.ModelProto], Boxes, tuple[int, int, int] | None]] = {
    "torchvision": (torchvision, Boxes("separate", SEPARATE, score=0.4), None),
    "ultralytics": (ultralytics, Boxes("end2end", score=0.4), (0, 4, 5)),
    "yolov7": (yolov7, Boxes("yolov7_nms", score=0.4), (1, 6, 5)),
}
"""Name → the end, the result, and the columns of box, score and class; None: there are three outputs."""


def list_rows(session: Session, data: np.ndarray, columns: tuple[int, int, int] | None) -> np.ndarray:
    """Return the network's own rows for a frame: left, top, right, bottom, score and class."""
    outputs = session.run({"picture": session.prepare_frame(data, "bgr8")})
    if columns is None:
        box, score, label = outputs.values()
        return np.concatenate([box, score[:, None], label[:, None]], axis=1)
    (rows,) = outputs.values()
    first, *others = columns
    return np.asarray(rows.reshape(-1, rows.shape[-1])[:, [*range(first, first + 4), *others]])


@pytest.mark.parametrize("kind", DEVICES)
def test_boxes_are_the_rows_that_exist(tmp_path: Path, kind: str) -> None:
    compare_rows(tmp_path, "torchvision", kind)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["ultralytics", "yolov7"])
def test_rows_in_one_output(tmp_path: Path, end: str) -> None:
    compare_rows(tmp_path, end, "llvm")


def compare_rows(tmp_path: Path, end: str, kind: str) -> None:
    """Compare the boxes of a frame with the rows that the network returns."""
    make, asked, columns = ENDS[end]
    data = draw_frame(FRAMES[0])
    with build(tmp_path, detect(make(), SIZE), asked, kind) as session:
        rows = list_rows(session, data, columns)
        found = session.run_frame(data, "bgr8")
        everything = session.run_frame(data, "bgr8", score=-1.0)
        inputs = {"picture": session.prepare_frame(data, "bgr8")}
        alone = session.make_results(session.run(inputs))
        on_device = session.make_results(session.run_on_device(inputs))
    real = rows[rows[:, 4] > 0]
    want = real[np.argsort(-real[:, 4], kind="stable")]
    want, more = want[want[:, 4] > 0.4], want
    assert 0 < len(want) < len(more)
    assert isinstance(found, Results)
    assert isinstance(everything, Results)
    assert len(everything) == len(more)  # and no box of zeros after them
    for box, (left, top, right, bottom, score, label) in zip(found, want, strict=True):
        assert isinstance(box, Box)
        assert box.index == int(label)
        assert box.score == pytest.approx(score, rel=1e-5)
        # 80 by 50 pixels become 96 by 60, two rows below the upper edge of the input.
        corners = np.clip((np.array([left, top, right, bottom]) - [0, 2, 0, 2]) / 1.2, 0, [80, 50, 80, 50])
        assert (box.x, box.y, box.x + box.width, box.y + box.height) == pytest.approx(tuple(corners), abs=1e-2)
    scores = [[each.score for each in some.boxes] for some in (found, alone, on_device)]
    assert scores[0] == scores[1] == scores[2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "asked",
    [
        Boxes("rtdetr"),
        Boxes("yolov8"),
        Boxes("yolox"),
        Boxes("ssd_decoded", ("end0", "end0")),
        Segmentation(),
        Classes(),
    ],
)
def test_other_results_of_counted_outputs_are_refused(tmp_path: Path, asked: Postprocess) -> None:
    with pytest.raises(TvmbuildError) as caught:
        build(tmp_path, detect(yolov7(), SIZE), asked)
    assert "end0" in caught.value.message
