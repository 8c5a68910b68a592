"""Packages whose results are masks, keypoints, maps, texts, vectors and points: the same as by hand, on all devices."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detector_nets import decode, make_detector, select
from frame_packages import DEVICES, FRAMES, SIZE, build, draw_frame
from onnx import TensorProto, helper
from result_functions import Placement, draw_instances, find_points, read_text, segment

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import (
    BOX_FORMS,
    Boxes,
    Heatmaps,
    Keypoints,
    Masks,
    Postprocess,
    Segmentation,
    Text,
    Vector,
)
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.preprocess import Fit
from tvmbuild.package.result_arrays import make_thresholds
from tvmbuild.package.results import Box, Map, Point, Results
from tvmbuild.package.results import Text as TextFound
from tvmbuild.package.results import Vector as VectorFound
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler
PLACED = Placement(50, 80, Fit(0, 2, 96, 60), SIZE)
"""The frames of 80 by 50 pixels in the input of 96 by 64, two rows below its upper edge."""


def run(session: Session, frame: Frame = FRAMES[0]) -> tuple[tuple[object, ...], list[np.ndarray]]:
    """Return the results of a frame, and the outputs of the network that they were made of."""
    data = draw_frame(frame)
    outputs = session.run({"picture": session.prepare_frame(data, frame.encoding)})
    found = session.run_frame(data, frame.encoding)
    assert isinstance(found, tuple)
    return found, list(outputs.values())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("form", ["yolov8", "yolov5", "end2end"])
def test_masks_of_a_frame(tmp_path: Path, form: str, kind: str) -> None:
    shapes = {"yolov8": [1, 4 + 2 + 6, 80], "yolov5": [1, 80, 5 + 2 + 6], "end2end": [1, 80, 6 + 6]}
    model = make_detector([shapes[form], [1, 6, 16, 24]], SIZE, spread=20)
    asked = Masks(form, score=0.5, overlap=0.9, most=30)
    with build(tmp_path, model, asked, kind) as session:
        found, (first, prototypes) = run(session)
        boxes = [each for each in found if isinstance(each, Box)]
        columns = BOX_FORMS[form].layout == "columns"
        own = first[:, :-6] if columns else first[:, :, :-6]
        kept = first[0, -6:].T if columns else first[0, :, -6:]
        candidates = decode(BOX_FORMS[form], [own], SIZE)
        want = select(asked, candidates)
        assert len(boxes) == len(want) > 1
        chosen = [next(i for i, box in enumerate(candidates[0].tolist()) if tuple(box) == each[2]) for each in want]
        values = np.einsum("nc,chw->nhw", kept[chosen].astype(np.float64), prototypes[0].astype(np.float64))
        drawn, distance = draw_instances(PLACED, candidates[0][chosen], values)
        sure = distance > 1e-3
        assert {number for number in np.unique(drawn[sure]).tolist() if number}
        for number, box in enumerate(boxes, 1):
            assert box.mask is not None
            np.testing.assert_array_equal(box.mask[sure], drawn[sure] == number)


@pytest.mark.parametrize("kind", DEVICES)
def test_keypoints_of_a_frame(tmp_path: Path, kind: str) -> None:
    model = make_detector([[1, 4 + 1 + 4 * 3, 80]], SIZE, spread=20)
    with build(tmp_path, model, Keypoints("yolov8", score=0.5, most=30, points=4), kind, frames=FRAMES[1:2]) as session:
        found, (first,) = run(session, FRAMES[1])
        candidates = decode(BOX_FORMS["yolov8"], [first[:, :5]], SIZE)
        want = select(Keypoints("yolov8", score=0.5, most=30), candidates)
        chosen = [next(i for i, box in enumerate(candidates[0].tolist()) if tuple(box) == each[2]) for each in want]
        assert len(found) == len(want) > 1
        for box, number in zip(found, chosen, strict=True):
            assert isinstance(box, Box)
            assert [point.index for point in box.points] == [0, 1, 2, 3]
            points = first[0, 5:, number].astype(np.float64).reshape(4, 3)
            x, y = np.clip(points[:, 0] / 1.2, 0, 80), np.clip((points[:, 1] - 2) / 1.2, 0, 50)
            got = np.array([(point.x, point.y, point.score) for point in box.points])
            np.testing.assert_allclose(got, np.stack([x, y, points[:, 2]], axis=1), rtol=1e-4, atol=1e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize(
    ("classes", "asked"),
    [
        (5, Segmentation()),
        (5, Segmentation(interpolation="nearest")),
        (1, Segmentation(activation="sigmoid", score=0.7)),
    ],
)
def test_map_of_a_frame(tmp_path: Path, classes: int, asked: Segmentation, kind: str) -> None:
    model, labels = make_detector([[1, classes, 16, 24]], SIZE), ("sky", "road")
    with build(tmp_path, model, asked, kind, labels=labels, frames=FRAMES[2:]) as session:
        ((found,), (scores,)) = run(session, FRAMES[2])
        assert isinstance(found, Map)
        want, lead = segment(PLACED, asked, scores[0])
        assert found.classes.shape == (50, 80)
        assert len(np.unique(want)) > 1
        np.testing.assert_array_equal(found.classes[lead > 1e-4], want[lead > 1e-4])
        listed = found.as_dict()["classes"]
        assert sum(each["pixels"] for each in listed) == 50 * 80
        assert {each["label"] for each in listed} <= {"sky", "road", None}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("activation", ["softmax", "none"])
def test_text_of_a_frame(tmp_path: Path, activation: str, kind: str) -> None:
    asked = Text(activation=activation)  # type: ignore[arg-type]
    with build(tmp_path, make_detector([[1, 30, 9]], SIZE), asked, kind, labels=tuple("abcdefgh")) as session:
        ((found,), (scores,)) = run(session)
        assert isinstance(found, TextFound)
        want = read_text(scores[0], 0, softmax=activation == "softmax")
        assert found.text == "".join("abcdefgh"[symbol - 1] for symbol, _ in want)
        assert len(found.text) > 2
        assert found.score == pytest.approx(np.mean([score for _, score in want]), rel=1e-5)


@pytest.mark.parametrize("kind", DEVICES)
def test_vector_of_a_frame(tmp_path: Path, kind: str) -> None:
    with build(tmp_path, make_detector([[1, 300]], SIZE), Vector(), kind) as session:
        ((found,), (vector,)) = run(session)
        assert isinstance(found, VectorFound)
        exact = vector[0].astype(np.float64)
        np.testing.assert_allclose(found.values, exact / np.linalg.norm(exact), rtol=1e-5)


@pytest.mark.parametrize("kind", DEVICES)
def test_points_of_a_frame(tmp_path: Path, kind: str) -> None:
    model = make_detector([[1, 5, 16, 24]], SIZE)
    with build(tmp_path, model, Heatmaps(), kind, labels=("nose", "eye")) as session:
        found, (maps,) = run(session)
        want = find_points(PLACED, maps[0])
        points = [each for each in found if isinstance(each, Point)]
        assert [each.label for each in points] == ["nose", "eye", None, None, None]
        got = np.array([(each.x, each.y, each.score) for each in points])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", DEVICES)
def test_points_with_channels_last(tmp_path: Path, kind: str) -> None:
    model = make_detector([[1, 16, 24, 5]], SIZE)
    model.graph.node.insert(0, helper.make_node("Transpose", ["last"], ["picture"], perm=[0, 3, 1, 2]))
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("last", TensorProto.FLOAT, [1, *SIZE, 3]))
    rules = Preprocess(resize="letterbox", layout="NHWC")
    with build(tmp_path, model, Heatmaps(labels=("nose",)), kind, preprocess=rules) as session:
        data = draw_frame(FRAMES[0])
        (maps,) = session.run({"last": session.prepare_frame(data, "bgr8")}).values()
        found = session.run_frame(data, "bgr8")
        assert isinstance(found, Results)
        got = np.array([(each.x, each.y, each.score) for each in found.points])
        np.testing.assert_allclose(got, find_points(PLACED, np.moveaxis(maps[0], -1, 0)), rtol=1e-4, atol=1e-3)
        assert [each.label for each in found.points[:2]] == ["nose", None]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("shapes", "asked"),
    [
        ([[1, 12, 80], [1, 6, 16, 24]], Masks("yolov8", score=0.5, most=30)),
        ([[1, 5, 16, 24]], Segmentation()),
        ([[1, 5, 16, 24]], Heatmaps()),
    ],
)
def test_a_picture_gives_almost_what_its_frame_gives(
    tmp_path: Path, shapes: list[list[int]], asked: Postprocess
) -> None:
    with build(tmp_path, make_detector(shapes, SIZE, spread=20), asked) as session:
        data = draw_frame(FRAMES[0])
        of_frame, of_picture = session.run_frame(data, "bgr8"), session.run_picture(data[:, :, ::-1])
        assert len(of_frame) == len(of_picture) > 0
        for one, other in zip(of_frame, of_picture, strict=True):
            if isinstance(one, Map) and isinstance(other, Map):
                assert np.mean(one.classes == other.classes) > 0.8  # the picture's are those of the nearest pixels
            elif isinstance(one, Box) and isinstance(other, Box):
                assert one == other
                assert np.mean(one.mask == other.mask) > 0.9
            else:
                assert one == other


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("shapes", "asked", "message"),
    [
        ([[1, 12, 80]], Masks("yolov8"), r"a result `masks` of the form yolov8 is in 2 outputs; net has or names 1"),
        ([[1, 12, 80], [1, 6, 10]], Masks("yolov8"), r"prototypes of masks are .*; net has out1 \[1, 6, 10\]"),
        (
            [[1, 9, 80], [1, 6, 4, 4]],
            Masks("yolov8"),
            r"needs \[1, 4 \+ classes \+ 6, boxes\], with 6 coefficients as the prototypes have; net",
        ),
        (
            [[1, 80, 20]],
            Keypoints("end2end", points=5),
            r"`keypoints` of the form end2end needs \[1, boxes, 21\], with 15 values for 5 points of 3",
        ),
        ([[1, 5, 7]], Text(), None),
        ([[2, 5, 7]], Text(), r"`text` needs an output .*; out0 is \[2, 5, 7\]"),
        ([[1, 300, 4, 4]], Segmentation(), r"scores of at most 255 classes, or one class a pixel; out0 is"),
        ([[1, 300]], Segmentation(), r"`segmentation` needs an output \[1, classes, height, width\]"),
        ([[2, 300]], Vector(), r"`vector` needs an output of floats with one axis; out0 is \[2, 300\]"),
        ([[1, 300]], Heatmaps(), r"`heatmaps` needs an output \[1, points, height, width\]; out0 is"),
    ],
)
def test_outputs_that_do_not_fit(
    tmp_path: Path, shapes: list[list[int]], asked: Postprocess, message: str | None
) -> None:
    model = make_detector(shapes, SIZE)
    if message is None:
        build(tmp_path, model, asked).close()
        return
    with pytest.raises(TvmbuildError, match=message):
        build(tmp_path, model, asked)


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"score": math.nan}, "`score` is NaN, and must be a number"),
        ({"overlap": 1.5}, "`overlap` is 1.5, and must be from 0 to 1"),
        ({"score": "0.5"}, "`score` is '0.5', and must be a number"),
        ({"overlap": [0.5]}, r"`overlap` is \[0.5\], and must be a number"),
    ],
)
def test_numbers_that_are_no_thresholds(thresholds: dict[str, Any], message: str) -> None:
    with pytest.raises(TvmbuildError, match=message):
        make_thresholds((Boxes("yolov8"),), **thresholds)


@pytest.mark.parametrize("number", [np.float32(0.5), np.int64(1), 1, np.array(0.5)])
def test_numbers_of_numpy_are_thresholds(number: Any) -> None:
    (made,) = make_thresholds((Boxes("yolov8"),), score=number).values()
    assert made[0] == number


def test_thresholds_that_a_result_does_not_have(tmp_path: Path) -> None:
    with build(tmp_path, make_detector([[1, 5, 7]], SIZE), Text()) as session:
        data = draw_frame(FRAMES[0])
        with pytest.raises(TvmbuildError, match="a result `text` has no threshold `score`"):
            session.run_frame(data, "bgr8", score=0.5)
