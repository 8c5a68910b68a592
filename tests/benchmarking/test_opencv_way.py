"""The usual way from a frame to the result finds what a package finds, in all encodings and forms."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from detector_nets import make_detector
from frame_cells import HERE, SIZE
from result_cases import CASES, make_case

from tvmbuild.base.frame_specs import ENCODINGS, Crop, Frame
from tvmbuild.base.postprocess_specs import Boxes, Classes, Postprocess, kind_of
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.benchmarking.frames.agreement import DESCRIBERS
from tvmbuild.benchmarking.frames.drawing import draw_frame
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.devices.tvm_frames import TvmFrames
from tvmbuild.package.archive import write_package
from tvmbuild.package.runtime.session import Session

opencv = pytest.importorskip("tvmbuild.benchmarking.frames.opencv")
pytestmark = pytest.mark.compiler
CELLS = sum((SIZE[0] // stride) * (SIZE[1] // stride) for stride in (8, 16, 32))
PLAIN, SCALED = Preprocess(resize="letterbox"), Preprocess(resize="crop", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
RAW = Preprocess(resize="stretch", color="bgr", scale=1.0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("shapes", "asked", "rules", "interpolation"),
    [
        ([[1, 7, 200]], Boxes("yolov8", score=0.5, overlap=0.3), PLAIN, "bilinear"),
        ([[1, 7, 200]], Boxes("yolov8", score=0.5, overlap=0.3, agnostic=True), RAW, "nearest"),
        ([[1, CELLS, 8]], Boxes("yolox", score=0.5, overlap=0.3, most=30), PLAIN, "bilinear"),
        ([[1, 30, 4], [1, 30, 4]], Boxes("detr", score=0.3), SCALED, "antialias"),
        ([[1, 1000]], Classes(most=4), SCALED, "antialias"),
    ],
)
def test_both_ways_find_the_same(
    tmp_path: Path, shapes: list[list[int]], asked: Postprocess, rules: Preprocess, interpolation: str
) -> None:
    stride = 640 if rules is RAW else None  # with gaps between the rows
    frames = tuple(Frame(90, 146, encoding, interpolation, stride) for encoding in ENCODINGS)  # type: ignore[arg-type]
    options = BuildOptions("net", preprocess=rules, frames=frames, postprocess=(asked,), labels=("one", "two"))
    model = make_detector(shapes, SIZE).SerializeToString()
    (tmp_path / "net.onnx").write_bytes(model)
    write_package(tmp_path / "net.tar", build_package(model, HERE, options=options))
    data = [draw_frame(frame) for frame in frames]
    with Session(tmp_path / "net.tar") as session:
        ours = TvmFrames(session, data)
        theirs = opencv.OpenCvWay(opencv.Setup(session.info, tmp_path / "net.onnx", 2), data)
        for number, frame in enumerate(frames):
            one, other = (way.compute(number)["input"] for way in (ours, theirs))
            step = rules.scale / np.reshape(rules.std or (1.0,), (-1, 1, 1))
            # Both have their own sums of YUV's colours.
            assert np.abs(one - other).max() <= np.max(2.01 * step), frame
            found = [way.find(number, None, None)[kind_of(asked)] for way in (ours, theirs)]
            assert found[0]
            first, second = ({each["index"]: each["label"] for each in results[:3]} for results in found)
            assert first == second
            # A byte more or less decides about a few of the crowded boxes.
            told = re.findall(r"\d+", DESCRIBERS[kind_of(asked)](*found))
            assert int(told[0]) >= 0.9 * len(found[0]), frame


AGREEMENTS = (
    (r"the same [1-9]\d* (boxes|classes|symbols), scores within (\S+e-0[3-9]|0.0e\+00)", 0.0),
    (r"masks from ([\d.]+)", 0.98),
    (r"([\d.]+)% of the pixels alike", 98.0),
    (r"points within (\S+e-0[3-9]|0.0e\+00) pixels", 0.0),
    (r"outputs within (\S+e-0[3-9]|0.0e\+00)", 0.0),
    (r"values within (\S+e-0[5-9]|0.0e\+00)", 0.0),
)
"""Patterns of the words about two ways' results, and the least value of their number."""
OF_PIXELS = ("masks", "map", "map with one score", "masks of the input", "map of the input", "heatmaps", "keypoints")


@pytest.mark.parametrize(
    ("case", "rules"),
    [*((case, PLAIN) for case in CASES), *((case, rules) for case in OF_PIXELS for rules in (RAW, SCALED))],
)
@pytest.mark.nightly
def test_the_usual_code_of_every_kind_and_form(tmp_path: Path, case: str, rules: Preprocess) -> None:
    asked, frame = CASES[case][1], Frame(90, 146, "bgr8", "bilinear", crop=Crop(3, 8, 70, 120))
    options = BuildOptions("net", preprocess=rules, frames=(frame,), postprocess=(asked,), labels=("one", "two"))
    model = make_case(case).SerializeToString()
    (tmp_path / "net.onnx").write_bytes(model)
    write_package(tmp_path / "net.tar", build_package(model, HERE, options=options))
    data = [draw_frame(frame)]
    with Session(tmp_path / "net.tar") as session:
        theirs = opencv.OpenCvWay(opencv.Setup(session.info, tmp_path / "net.onnx", 2), data)
        found, other = (way.find(0, None, None)[kind_of(asked)] for way in (TvmFrames(session, data), theirs))
    told = DESCRIBERS[kind_of(asked)](found, other)
    matches = [(re.search(pattern, told), least) for pattern, least in AGREEMENTS]
    good = [float(match[1]) >= least if least else True for match, least in matches if match]
    assert good, told
    assert all(good), told
    assert [each.get("label") for each in found] == [each.get("label") for each in other]
    assert [each.get("text") for each in found] == [each.get("text") for each in other]
