"""The gate of frames and results: what plain NumPy makes is accepted, and planted faults are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detector_nets import add_factor, add_priors, decode, draw_outputs, make_detector, select
from frame_cells import SIZE
from frame_gates import Fields, change, check, refuse
from small_package import ANY_X86

from tvmbuild.base.frame_specs import ENCODINGS, INTERPOLATIONS, Crop, Frame, Interpolation
from tvmbuild.base.postprocess_specs import (
    BOX_FORMS,
    Boxes,
    Classes,
    Segmentation,
)
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.benchmarking.frames import unknown
from tvmbuild.benchmarking.frames.box_check import check_boxes
from tvmbuild.benchmarking.frames.class_check import check_classes
from tvmbuild.benchmarking.frames.drawing import draw_frame
from tvmbuild.benchmarking.frames.references import choose_thresholds, explain_lack, find_reference, widen
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.devices.frame_worker import Thresholds
from tvmbuild.devices.result_fields import pack_pixels, unpack_pixels
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.results import Box
from tvmbuild.package.runtime.session import Session

HEIGHT, WIDTH = 480, 640
FAR = np.array([0, 0, 1, 1, 1e9, 1e9])


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A detector whose boxes are crowded; its labels are `cat`, `dog` and `cow`."""
    path = tmp_path_factory.mktemp("gate") / "net.tar"
    options = BuildOptions(
        "net",
        preprocess=Preprocess(resize="letterbox"),
        frames=(Frame(50, 80, "bgr8"),),
        postprocess=(Boxes("yolov8", score=0.3, overlap=0.3, most=40),),
        labels=("cat", "dog", "cow"),
    )
    model = make_detector([[1, 7, 200]], SIZE).SerializeToString()
    write_package(path, build_package(model, PackageTarget("here", "llvm", ANY_X86), options=options))
    with Session(path) as opened:
        yield opened


@pytest.mark.compiler
def test_a_right_package_is_accepted(session: Session) -> None:
    found = check(session)
    assert found.notes == ()
    assert found.check.frames == 1
    assert found.check.results > 20
    assert found.check.place_error is not None
    assert found.check.place_error < 1e-3


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("distort", "message"),
    [
        (change(2, "x", lambda x: x + 1), "is off by 1 pixels, where 0.01"),
        (change(2, "y", lambda y: y - 0.5), "is off by 0.5 pixels"),
        (change(2, "width", lambda width: width + 1), "is off by 1 pixels"),
        (change(2, "score", lambda score: score * 1.01), "must have the score"),
        (change(2, "index", lambda index: (index + 1) % 3), "box 2, class"),
        (change(2, "label", lambda _: "mouse"), "must have the label"),
        (lambda found: found.pop(3), "a box is missing, class"),
        (lambda found: found.append(dict(found[0])), "box 40, class "),
        (lambda found: found.reverse(), "has a higher score than box 0"),
        (lambda found: found.clear(), "a box is missing, class"),
    ],
)
def test_distorted_boxes_are_refused(session: Session, distort: Callable[[Fields], object], message: str) -> None:
    assert message in refuse(session, distort)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"overlap": 0.31}, "of their union, over 0.3"),
        ({"overlap": 0.29}, "a box is missing, class"),
        ({"score": 0.31}, "a box is missing, class"),
        ({"score": 0.29}, "has a score that does not exceed 0.3"),
    ],
)
def test_wrong_thresholds_are_refused(wrong: dict[str, Any], message: str) -> None:
    asked = Boxes("yolov8", score=0.3, overlap=0.3, most=1000)
    decoding = Decoding(asked, ("out",), HEIGHT, WIDTH, FAR)
    outputs = {"out": draw_outputs("yolov8", 2000, 3, np.random.default_rng(0))[0]}
    own, other = (suppress(each, list(outputs.values())) for each in (asked, replace(asked, **wrong)))
    assert check_boxes(decoding, widen(outputs), Thresholds(), own).problem is None
    problem = check_boxes(decoding, widen(outputs), Thresholds(), other).problem
    assert problem is not None
    assert message in problem


def suppress(asked: Boxes, outputs: Sequence[np.ndarray], priors: np.ndarray | None = None) -> Fields:
    """Return the fields of the boxes that textbook code finds, rounded to float32."""
    found = select(asked, decode(BOX_FORMS[asked.form], outputs, (HEIGHT, WIDTH), priors))
    boxes = []
    for score, index, corners in found:
        left, top, right, bottom = np.clip(np.array(corners, np.float32), 0, None).tolist()
        boxes.append(Box(left, top, right - left, bottom - top, float(np.float32(score)), index).as_dict())
    return boxes


@pytest.mark.parametrize("form", sorted(BOX_FORMS))
@pytest.mark.parametrize("most", [pytest.param(300, marks=pytest.mark.nightly), 7])
@pytest.mark.parametrize("agnostic", [False, True])
def test_textbook_boxes_are_accepted(form: str, most: int, agnostic: bool) -> None:
    count = sum((HEIGHT // stride) * (WIDTH // stride) for stride in BOX_FORMS[form].strides) or 400
    asked, priors = add_priors(Boxes(form, score=0.3, overlap=0.4, most=most, agnostic=agnostic), (HEIGHT, WIDTH))
    outputs = draw_outputs(form, count if priors is None else len(priors), 4, np.random.default_rng(1))
    named = {f"out{number}": value for number, value in enumerate(outputs)}
    decoding = Decoding(asked, tuple(named), HEIGHT, WIDTH, FAR)
    found = suppress(asked, outputs, priors)
    assert found
    got = check_boxes(decoding, widen(named), Thresholds(), found)
    assert (got.count, got.problem) == (len(found), None)
    if len(found) < most:
        assert check_boxes(decoding, widen(named), Thresholds(), found[1:]).problem is not None


def test_boxes_of_almost_equal_scores_may_come_in_either_order() -> None:
    rows = np.zeros((1, 6, 4), np.float32)
    rows[0, :4] = np.array([[20, 25, 100, 300], [20, 20, 100, 300], [10, 10, 30, 30], [10, 10, 30, 30]])
    rows[0, 4] = [0.9, 0.9 + 1e-6, 0.8, 0.8 + 1e-6]
    outputs = {"out": rows}
    asked = Boxes("yolov8", score=0.3, overlap=0.3)
    decoding = Decoding(asked, ("out",), HEIGHT, WIDTH, FAR)
    boxes = [Box(15, 15, 10, 10, 0.9, 0), Box(20, 15, 10, 10, 0.9, 0), Box(85, 85, 30, 30, 0.8, 0)]
    boxes.append(Box(285, 285, 30, 30, 0.8, 0))
    for first in boxes[:2]:
        for rest in (boxes[2:], boxes[:1:-1]):
            found = [each.as_dict() for each in (first, *rest)]
            assert check_boxes(decoding, widen(outputs), Thresholds(), found).problem is None
    both = [each.as_dict() for each in boxes]
    assert "boxes 0 and 1 share" in str(check_boxes(decoding, widen(outputs), Thresholds(), both).problem)


def test_boxes_without_end_do_not_count() -> None:
    rows = [[50, 50, 50], [50, 50, 50], [1e20, 1e20, 10], [1e20, 1e20, 10], [0.9, 0.8, 0.7]]
    outputs = {"out": np.array(rows, np.float32)[None]}
    decoding = Decoding(Boxes("yolov8"), ("out",), HEIGHT, WIDTH, np.array([0, 0, 1, 1, WIDTH, HEIGHT]))
    ends = [Box(0, 0, WIDTH, HEIGHT, score, 0).as_dict() for score in (0.9, 0.8)]
    last = Box(45, 45, 10, 10, 0.7, 0).as_dict()
    for found in ([*ends, last], [ends[0], last]):
        assert check_boxes(decoding, widen(outputs), Thresholds(), found).problem is None


@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "none"])
def test_classes_are_compared(activation: Any) -> None:
    scores = np.random.default_rng(0).normal(0, 2, 50).astype(np.float32)
    exact = scores.astype(np.float64)
    values = {
        "softmax": np.exp(exact) / np.exp(exact).sum(),
        "sigmoid": 1 / (1 + np.exp(-exact)),
        "none": exact,
    }[activation]
    decoding = Decoding(Classes((), activation, score=-9.0, most=4), ("out",), 0, 0, FAR, tuple("abc"))
    best = np.argsort(-values)[:6]
    fields: Fields = [
        {"score": float(values[at]), "index": int(at), "label": "abc"[at] if at < 3 else None} for at in best
    ]
    outputs = {"out": exact[None]}

    def judge(found: Fields) -> str | None:
        return check_classes(decoding, outputs, Thresholds(), found).problem

    assert judge(fields[:4]) is None
    assert "at most 4 are asked for" in str(judge(fields[:5]))
    assert "is missing" in str(judge(fields[:3]))
    assert f"class {best[0]} with the score" in str(judge(fields[1:5]))
    assert "comes after a lower score" in str(judge(fields[3::-1]))
    assert "was found before" in str(judge([fields[0], fields[0]]))
    assert "must have the score" in str(judge([{**fields[0], "score": 0.4321}]))
    assert "must have the label" in str(judge([{**each, "label": "d"} for each in fields[:4]])) or min(best[:4]) > 2
    assert "does not exist: there are 50" in str(judge([{**fields[0], "index": 50}]))
    assert check_classes(decoding, outputs, Thresholds(score=9.5), []).problem is None
    assert "does not exceed 9.5" in str(check_classes(decoding, outputs, Thresholds(score=9.5), fields[:1]).problem)


def test_thresholds_let_results_through() -> None:
    outputs = {"out": draw_outputs("yolov8", 2000, 3, np.random.default_rng(0))[0]}
    for score, kept in ((0.99999, False), (0.85, True), (0.001, False)):
        decoding = Decoding(Boxes("yolov8", score=score), ("out",), HEIGHT, WIDTH, FAR)
        chosen = choose_thresholds(decoding, widen(outputs))
        assert (chosen == Thresholds()) == kept, score
        if chosen.score is not None:
            assert np.count_nonzero(outputs["out"][0, 4:].max(axis=0) > chosen.score) == 50


@pytest.mark.compiler
def test_several_results_are_all_compared(tmp_path: Path) -> None:
    options = BuildOptions(
        "net",
        preprocess=Preprocess(input="picture", resize="letterbox"),
        frames=(Frame(50, 80, "bgr8"),),
        postprocess=(Boxes("yolov8", score=0.3, overlap=0.3, most=40), Segmentation(("out1",))),
    )
    model = add_factor(make_detector([[1, 7, 200], [1, 5, 16, 24]], SIZE)).SerializeToString()
    write_package(tmp_path / "net.tar", build_package(model, PackageTarget("here", "llvm", ANY_X86), options=options))
    with Session(tmp_path / "net.tar") as session:
        found = check(session)
        assert (found.notes, found.check.results > 20) == ((), True)
        for field, message in (("x", "is off by 1 pixels"), ("pixels", "pixels have a wrong class")):

            def distort(results: Fields, field: str = field) -> None:
                if field == "x" in results[0]:
                    results[0]["x"] += 1
                elif field == "pixels" in results[0]:
                    results[0]["pixels"] = pack_pixels(np.roll(unpack_pixels(results[0]["pixels"]), 1, axis=1))

            assert message in refuse(session, distort)


BOXED = Preprocess(resize="letterbox", mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))


@pytest.mark.sampled(1)
@pytest.mark.compiler
@pytest.mark.parametrize(
    ("rules", "interpolation"),
    [
        (BOXED, "bilinear"),
        (Preprocess(resize="crop", color="bgr", scale=1.0), "antialias"),
        *(
            pytest.param(rules, interpolation, marks=pytest.mark.nightly)
            for rules, interpolation in (
                *((BOXED, each) for each in INTERPOLATIONS if each != "bilinear"),
                (Preprocess(resize="stretch"), "bilinear"),
                (Preprocess(resize="letterbox", align="top-left", fill=3), "area"),
                (Preprocess(resize="crop", crop_pct=0.7), "area"),
            )
        ),
    ],
)
def test_all_frames_are_prepared_as_the_reference_does(
    tmp_path: Path, rules: Preprocess, interpolation: Interpolation
) -> None:
    frames = [Frame(90, 146, encoding, interpolation) for encoding in ENCODINGS]
    frames += [Frame(40, 52, encoding, interpolation) for encoding in ("rgb8", "uyvy")]
    frames += [Frame(80, 130, each, interpolation, stride=400) for each in ("bgr8", "i420", "bayer_rggb8")]
    frames += [Frame(80, 132, each, interpolation, crop=Crop(7, 30, 60, 71)) for each in ("bgr8", "nv12")]
    options = BuildOptions("net", preprocess=rules, frames=tuple(frames))
    model = make_detector([[1, 4]], SIZE).SerializeToString()
    write_package(tmp_path / "net.tar", build_package(model, PackageTarget("here", "llvm", ANY_X86), options=options))
    with Session(tmp_path / "net.tar") as session:
        found = check(session)
    assert found.check.frames == len(frames)
    assert found.check.largest_steps <= (1e-3 if interpolation == "nearest" else 1.25)


def test_a_drawn_frame_is_the_same_each_time() -> None:
    for encoding in ENCODINGS:
        frame = Frame(50, 80, encoding)
        first = draw_frame(frame)
        assert first.shape == frame.shape
        assert first.dtype == np.uint8
        np.testing.assert_array_equal(first, draw_frame(frame))
        assert first.std() > 30


def test_what_the_reference_does_not_know_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    decoding = Decoding(Boxes("yolov8", agnostic=True), ("out",), HEIGHT, WIDTH, FAR)
    assert find_reference(decoding) is not None
    monkeypatch.setattr(unknown, "_KNOWN_OF_FORMS", ("layout",))
    assert find_reference(decoding) is not None  # the rest has its default
    monkeypatch.setattr(unknown, "_KNOWN_OF_FORMS", ())
    assert find_reference(decoding) is None
    told = "results of the kind `boxes` with layout are not compared: they have no reference yet"
    assert explain_lack(decoding) == told
    monkeypatch.setattr(unknown, "_KNOWN_OF_BOXES", ("form", "outputs", "score", "overlap", "most"))
    assert "with agnostic, layout are not" in explain_lack(decoding)
