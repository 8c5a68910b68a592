"""The usual way from a frame to the result finds what a package finds, in all encodings and forms."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from detector_nets import make_detector
from frame_cells import HERE, SIZE

from tvmbuild.base.frame_specs import ENCODINGS, Crop, Frame
from tvmbuild.base.postprocess_specs import Boxes, Classes, Postprocess, Segmentation, kind_of
from tvmbuild.base.specs import Preprocess
from tvmbuild.benchmarking.frames.agreement import DESCRIBERS, describe_results
from tvmbuild.benchmarking.frames.drawing import draw_frame
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.devices.tvm_frames import TvmFrames
from tvmbuild.package.archive import write_package
from tvmbuild.package.results import Results
from tvmbuild.package.runtime.session import Session

opencv = pytest.importorskip("tvmbuild.benchmarking.frames.opencv")
pytestmark = pytest.mark.compiler
CELLS = sum((SIZE[0] // stride) * (SIZE[1] // stride) for stride in (8, 16, 32))
PLAIN, SCALED = Preprocess(resize="letterbox"), Preprocess(resize="crop", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
RAW = Preprocess(resize="stretch", color="bgr", scale=1.0)


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
    frames = tuple(Frame(90, 146, encoding, interpolation) for encoding in ENCODINGS)  # type: ignore[arg-type]
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


@pytest.mark.parametrize("rules", [PLAIN, SCALED, Preprocess(color="bgr")], ids=["letterbox", "crop", "stretch"])
@pytest.mark.parametrize(
    ("shape", "asked"),
    [
        ([1, 5, 8, 12], Segmentation()),
        ([1, 1, 8, 12], Segmentation(activation="sigmoid", score=0.8)),
        ([1, 3, 8, 12], Segmentation(interpolation="nearest")),
    ],
    ids=["scores", "one score", "nearest"],
)
def test_both_ways_draw_the_same_map(tmp_path: Path, rules: Preprocess, shape: list[int], asked: Segmentation) -> None:
    frames = (Frame(90, 146, "rgb8", "bilinear"), Frame(90, 146, "bgr8", "bilinear", crop=Crop(5, 7, 70, 120)))
    options = BuildOptions("net", preprocess=rules, frames=frames, postprocess=(asked,), labels=("one", "two"))
    (tmp_path / "net.onnx").write_bytes(make_detector([shape], SIZE).SerializeToString())
    write_package(tmp_path / "net.tar", build_package(tmp_path / "net.onnx", HERE, options=options))
    data = [draw_frame(frame) for frame in frames]
    with Session(tmp_path / "net.tar") as session:
        theirs = opencv.OpenCvWay(opencv.Setup(session.info, tmp_path / "net.onnx", 2), data)
        for number, frame in enumerate(frames):
            ours = session.run_frame(data[number], frame.encoding)
            other = theirs.decode(number, theirs.run(theirs.prepare(number)), None, None)
            assert isinstance(ours, Results)
            assert ours.segmentation is not None
            one, two = ours.segmentation.classes, other.segmentation.classes
            assert ((one == 255) != (two == 255)).mean() < 0.03  # a row or column more or less
            seen = (one != 255) & (two != 255)
            assert seen.mean() > 0.4
            assert len(np.unique(one[seen])) > 1
            assert (one[seen] == two[seen]).mean() > 0.9, frame
            told = describe_results(ours.as_dict(), other.as_dict())
            assert float(told.removeprefix("shares of the classes within ")) < 0.1
