"""Packages from the frame to the result: the same as by hand, on every kind of device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detector_nets import add_priors, decode, make_detector, select
from frame_packages import DEVICES, FRAMES, SIZE, build, draw_frame
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.postprocess_specs import BOX_FORMS, Boxes, Classes, Postprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.results import Box, Class

pytestmark = pytest.mark.compiler
CELLS = sum((SIZE[0] // stride) * (SIZE[1] // stride) for stride in (8, 16, 32))
SHAPES: dict[str, list[list[int]]] = {
    "yolov5": [[1, 200, 8]],
    "yolov8": [[1, 7, 200]],
    "yolox": [[1, CELLS, 8]],
    "end2end": [[1, 30, 6]],
    "separate": [[1, 30], [1, 30, 4], [1, 30]],
    "ppyolo": [[1, 30, 6]],
    "yolov7_nms": [[1, 30, 7]],
    "rtdetr": [[1, 30, 7]],
    "detr": [[1, 30, 4], [1, 30, 4]],
    "dfine": [[1, 30, 3], [1, 30, 4]],
    "ssd": [[1, 144, 4], [1, 144, 4]],
    "ssd_softmax": [[1, 144, 3], [1, 144, 4]],
    "ssd_tf": [[1, 144, 3], [1, 144, 4]],
    "ssd_decoded": [[1, 144, 3], [1, 144, 4]],
    "blazeface": [[1, 144, 1], [1, 144, 16]],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("form", sorted(BOX_FORMS))
def test_boxes_of_a_frame(tmp_path: Path, form: str, kind: str) -> None:
    asked, priors = add_priors(Boxes(form, score=0.3, overlap=0.3, most=40), SIZE)
    with build(
        tmp_path, make_detector(SHAPES[form], SIZE), asked, kind, labels=("cat", "dog"), frames=FRAMES
    ) as session:
        for frame in FRAMES:
            data = draw_frame(frame)
            got = session.run_frame(data, frame.encoding)
            outputs = list(session.run({"picture": session.prepare_frame(data, frame.encoding)}).values())
            want = select(asked, decode(BOX_FORMS[form], outputs, SIZE, priors))
            # 80 by 50 pixels become 96 by 60, two rows below the upper edge of the input.
            assert len(got) == len(want) > 0
            for box, (score, index, corners) in zip(got, want, strict=True):
                assert isinstance(box, Box)
                assert (box.index, box.label) == (index, ("cat", "dog")[index] if 0 <= index < 2 else None)
                assert box.score == pytest.approx(score, rel=1e-4, abs=1e-5)
                left, top, right, bottom = np.clip((np.array(corners) - [0, 2, 0, 2]) / 1.2, 0, [80, 50, 80, 50])
                assert (box.x, box.y) == pytest.approx((left, top), abs=1e-2)
                assert (box.width, box.height) == pytest.approx((right - left, bottom - top), abs=1e-2)


def test_priors_may_be_a_constant_output(tmp_path: Path) -> None:
    stated, priors = add_priors(Boxes("ssd", ("out0", "out1"), score=0.3, overlap=0.3), SIZE)
    assert priors is not None
    model, data = make_detector(SHAPES["ssd"], SIZE), draw_frame(FRAMES[0])
    with build(tmp_path, model, stated) as session:
        want = session.run_frame(data, "bgr8")
    value = numpy_helper.from_array(priors.astype(np.float32))
    model.graph.node.append(helper.make_node("Constant", [], ["priors"], value=value))
    model.graph.output.append(helper.make_tensor_value_info("priors", TensorProto.FLOAT, priors.shape))
    with build(tmp_path, model, Boxes("ssd", ("out0", "out1", "priors"), score=0.3, overlap=0.3)) as session:
        assert session.run_frame(data, "bgr8") == want != ()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "none"])
def test_classes_of_a_frame(tmp_path: Path, activation: Any, kind: str) -> None:
    model = make_detector([[1, 1000]], SIZE)
    with build(tmp_path, model, Classes((), activation, score=-100, most=7), kind) as session:
        data = draw_frame(FRAMES[0])
        got = session.run_frame(data, "bgr8")
        (scores,) = session.run({"picture": session.prepare_frame(data, "bgr8")}).values()
        exact = scores[0].astype(np.float64)
        exponentials = np.exp(exact - exact.max())
        values = {"softmax": exponentials / exponentials.sum(), "sigmoid": 1 / (1 + np.exp(-exact)), "none": exact}
        best = np.argsort(-values[activation], kind="stable")[:7]
        assert len(got) == 7
        for each, index in zip(got, best, strict=True):
            assert isinstance(each, Class)
            assert each.score == pytest.approx(values[activation][index], rel=1e-5)
        indices = {each.index for each in got if isinstance(each, Class)}
        assert indices == set(best.tolist()) or activation == "sigmoid"


def test_thresholds_change_without_a_build(tmp_path: Path) -> None:
    with build(tmp_path, make_detector(SHAPES["yolov8"], SIZE), Boxes("yolov8", score=0.3)) as session:
        data = draw_frame(FRAMES[0])
        few, many = (session.run_frame(data, "bgr8", score=score) for score in (2.0, 0.1))
        every = session.run_frame(data, "bgr8", score=0.1, overlap=1.0)
        assert len(few) < len(many) < len(every)
        assert len(session.run_frame(data, "bgr8", score=1e9)) == 0
        submitted = [session.submit_frame(data, encoding="bgr8", score=score) for score in (2.0, 0.1)]
        assert [each.result(20) for each in submitted] == [few, many]
        newest = [session.submit_frame(data, encoding="bgr8", newest=True) for _ in range(5)]
        assert newest[-1].result(20) == session.run_frame(data, "bgr8")
        with pytest.raises(TvmbuildError, match="net takes no frame"):
            session.submit_frame(data[1:]).result(20)


def test_a_picture_of_any_size_gives_what_its_frame_gives(tmp_path: Path) -> None:
    with build(tmp_path, make_detector(SHAPES["yolov8"], SIZE), Boxes("yolov8")) as session:
        data = draw_frame(FRAMES[0])
        assert session.run_picture(data[:, :, ::-1]) == session.run_frame(data, "bgr8")
        other = np.random.default_rng(3).integers(0, 256, (70, 33, 3), np.uint8)
        boxes = [each for each in session.run_picture(other) if isinstance(each, Box)]
        assert boxes
        assert all(box.x + box.width <= 33.01 and box.y + box.height <= 70.01 for box in boxes)


def test_outputs_become_results(tmp_path: Path) -> None:
    with build(tmp_path, make_detector(SHAPES["yolov8"], SIZE), Boxes("yolov8")) as session:
        outputs = session.run({"picture": session.prepare_frame(draw_frame(FRAMES[0]), "bgr8")})
        assert session.make_results(outputs)
        for wrong, message in (
            ({}, "there is none"),
            ({"out0": np.zeros((1, 1, 1), np.float32)}, r"got float32 \[1, 1"),
        ):
            with pytest.raises(TvmbuildError, match=message):
                session.make_results(wrong)


def test_names_of_inputs_and_outputs_do_not_matter(tmp_path: Path) -> None:
    model = make_detector(SHAPES["detr"], SIZE)
    names = {"picture": "frame", "out0": "thresholds", "out1": "geometry"}
    for values in (model.graph.input, model.graph.output):
        for each in values:
            each.name = names[each.name]
    for node in model.graph.node:
        node.input[:] = [names.get(each, each) for each in node.input]
        node.output[:] = [names.get(each, each) for each in node.output]
    with (
        build(tmp_path, model, Boxes("detr")) as session,
        build(tmp_path, make_detector(SHAPES["detr"], SIZE), Boxes("detr")) as plain,
    ):
        data = draw_frame(FRAMES[0])
        picture = session.prepare_frame(data, "bgr8")
        outputs = session.run({"frame": picture.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)})
        assert session.run_frame(data, "bgr8") == plain.run_frame(data, "bgr8")
        assert session.make_results(outputs) == plain.make_results(plain.run({"picture": picture}))


@pytest.mark.parametrize("kind", DEVICES)
def test_an_array_for_the_bytes(tmp_path: Path, kind: str) -> None:
    with build(tmp_path, make_detector(SHAPES["yolov8"], SIZE), Boxes("yolov8"), kind, frames=FRAMES) as session:
        data, own = draw_frame(FRAMES[2]), session.empty_frame(2)
        assert (own.shape, str(own.dtype), own.ctypes.data % 64) == (FRAMES[2].shape, "uint8", 0)
        own[...] = data
        assert session.run_frame(own, "nv12") == session.run_frame(data, "nv12") != ()
        with pytest.raises(TvmbuildError, match="net has no frame number 3; it has 3"):
            session.empty_frame(3)
        with pytest.raises(TvmbuildError, match=r"a frame has a number in .*, got 'yuyv'"):
            session.empty_frame("yuyv")  # type: ignore[arg-type]


def test_frames_without_a_result_give_the_outputs(tmp_path: Path) -> None:
    with build(tmp_path, make_detector([[1, 5]], SIZE), None, frames=FRAMES[2:]) as session:
        data = draw_frame(FRAMES[2])
        found = session.run_frame(data, "nv12")
        assert isinstance(found, dict)
        (got,) = found.values()
        (want,) = session.run({"picture": session.prepare_frame(data, "nv12")}).values()
        np.testing.assert_array_equal(got, want)


def test_frames_that_do_not_fit(tmp_path: Path) -> None:
    with build(tmp_path, make_detector([[1, 5]], SIZE), Classes(), frames=FRAMES) as session:
        for frame, encoding, message in (
            (np.zeros((50, 80, 3), np.uint8), None, "several frames of net are"),
            (np.zeros((50, 80, 3), np.float32), "bgr8", "a frame is uint8, got float32"),
            (np.zeros((51, 80, 3), np.uint8), None, r"net takes no frame \[51, 80, 3\]; it takes bgr8 \[50, 80, 3\]"),
        ):
            with pytest.raises(TvmbuildError, match=message):
                session.run_frame(frame, encoding)
    with build(tmp_path, make_detector([[1, 5]], SIZE), None, frames=()) as session:
        with pytest.raises(TvmbuildError, match="net takes no frames"):
            session.run_frame(np.zeros((50, 80, 3), np.uint8))
        with pytest.raises(TvmbuildError, match="does not say what its outputs mean"):
            session.run_picture(np.zeros((50, 80, 3), np.uint8))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("shapes", "asked", "message"),
    [
        (
            [[1, 200, 8]],
            Boxes("end2end"),
            r"a result `boxes` of the form end2end needs \[1, boxes, 6\]; net has out0 \[1, 200, 8\]",
        ),
        ([[1, 10, 8]], Boxes("yolox"), r"of the form yolox needs .*; net has out0 \[1, 10, 8\]"),
        ([[1, 9, 8], [1, 9, 4]], Boxes("ssd"), "`boxes` of the form ssd is in 3 outputs; net has or names 2"),
        (
            [[1, 9, 8], [1, 9, 4]],
            Boxes("ssd", strides=(32,), anchors=((8.0, 8.0),)),
            "of the form ssd has 6 boxes by its `strides` and `anchors`; net has 9",
        ),
        (
            [[1, 9, 8], [1, 9, 4], [1, 8, 4]],
            Boxes("ssd"),
            r"needs \[1, boxes, classes \+ 1\] and \[1, boxes, 4\] and \[boxes, 4\]; net has out0",
        ),
        ([[1, 10, 8]], Boxes("detr"), "`boxes` of the form detr is in 2 outputs; net has or names 1"),
        ([[1, 10, 8]], Boxes("yolov8", ("boxes",)), "net has no output boxes; its outputs are out0"),
        ([[1, 4, 10]], Boxes("yolov8"), r"of the form yolov8 needs \[1, 4 \+ classes, boxes\]; net has"),
        ([[1, 10, 3], [1, 10, 5]], Boxes("detr"), r"needs \[1, boxes, classes \+ 1\] and \[1, boxes, 4\]; net has"),
        ([[8, 1]], Classes(), r"`classes` needs an output with one score for each class; out0 is \[8, 1\]"),
        ([[1, 10, 8]], Classes(), r"`classes` needs an output with one score for each class; out0 is \[1, 10, 8\]"),
    ],
)
def test_outputs_that_do_not_fit(tmp_path: Path, shapes: list[list[int]], asked: Postprocess, message: str) -> None:
    with pytest.raises(TvmbuildError, match=message):
        build(tmp_path, make_detector(shapes, SIZE), asked)
