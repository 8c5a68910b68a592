"""The frames' part of result.json, and the words in which two ways' results are compared."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from benchmark_results import make_framed, make_result

from tvmbuild.benchmarking.frames.agreement import (
    describe_boxes,
    describe_classes,
    describe_map,
    describe_outputs,
    describe_points,
    describe_text,
    describe_vector,
)
from tvmbuild.benchmarking.frames.contest import find_percentile
from tvmbuild.benchmarking.frames.results import FrameCheck, FrameResult
from tvmbuild.benchmarking.results import EmulatedResult, read_emulated, read_result
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.result_fields import list_fields, unpack_pixels
from tvmbuild.package.results import Box, Class, Map, Point, Results, Text


def test_a_result_with_frames_is_read_back() -> None:
    result = replace(make_result(), frames=make_framed())
    told = json.loads(json.dumps(result.to_json(), sort_keys=True))
    read = read_result(told)
    assert read is not None
    assert read.frames is not None
    assert read.frames.to_json() == result.to_json()["frames"]
    assert list(read.frames.rivals[0].times.parts_ms) == ["prepare", "network", "result"]
    del told["frames"]["check"]
    assert read_result(told) is None
    assert "frames" not in make_result().to_json()


def test_a_result_without_times_is_read_back() -> None:
    frames = FrameResult("nv12 [75, 80], antialias", FrameCheck(1, 0, 0.5, 0.0, None), notes=("none are compared",))
    product = make_result().product
    result = EmulatedResult("net@board", product, 2, MachineState("qemu aarch64", 2), 1e-6, 1e-5, frames=frames)
    assert read_emulated(json.loads(json.dumps(result.to_json()))) == result


def test_percentiles_are_samples() -> None:
    samples = [float(each) for each in range(200, 0, -1)]
    assert find_percentile(samples, 0.99) == 198
    assert find_percentile([7.0], 0.99) == 7


def test_agreement_in_words() -> None:
    boxes = [Box(10, 10, 50, 50, 0.9, 1), Box(0, 0, 0, 0, 0.8, 2), Box(10, 10, 50, 50, 0.7, 3)]
    ours = [each.as_dict() for each in boxes]
    moved = [replace(each, x=each.x + 0.05, score=each.score - 0.001).as_dict() for each in reversed(boxes)]
    assert describe_boxes(ours, moved) == "the same 3 boxes, scores within 1.0e-03, overlaps from 1.000"
    assert describe_boxes(ours, moved[1:]).startswith("2 boxes in common, 3 of ours, 2 of theirs, scores within ")
    assert describe_boxes(ours, []) == "0 boxes in common, 3 of ours, 0 of theirs"
    assert describe_boxes([], []) == "the same 0 boxes"
    classes = [Class(0.5, 7).as_dict(), Class(0.25, 3).as_dict()]
    assert describe_classes(classes, classes) == "the same 2 classes, scores within 0.0e+00"
    assert describe_classes(classes, classes[:1]).startswith("1 classes in common, 2 of ours, 1 of theirs")
    points = [Point(3, 4, 0.5).as_dict(), Point(5, 6, 0.25).as_dict()]
    assert describe_points(points, [points[0], {**points[1], "y": 6.5}]) == (
        "2 points within 5.0e-01 pixels, scores within 0.0e+00"
    )
    text, other = Text("ab", 0.5, (1, 2)).as_dict(), Text("a", 0.5, (1,)).as_dict()
    assert describe_text([text], [text]) == "the same 2 symbols, scores within 0.0e+00"
    assert describe_text([text], [other]) == "different texts of 2 and 1 symbols"
    assert describe_vector([{"values": [1.0, 2.0]}], [{"values": [1.0, 2.5]}]) == "2 values within 5.0e-01"
    outputs = {"y": np.array([1.0, 4.0])}
    assert describe_outputs({"y": np.array([1.0, 4.2])}, outputs) == "outputs within 5.0e-02 of the largest"


def test_agreement_of_pixels_in_words() -> None:
    mask, moved = np.zeros((2, 10, 20), bool)
    mask[2:6, 2:12], moved[2:6, 3:12] = True, True
    boxes = [Results({"masks": (Box(10, 10, 50, 50, 0.9, 1, mask=each),)}) for each in (mask, moved)]
    ours, theirs = (list_fields(each)["masks"] for each in boxes)
    assert describe_boxes(ours, theirs).endswith("overlaps from 1.000, masks from 0.900")
    np.testing.assert_array_equal(unpack_pixels(ours[0]["mask"]), mask)
    maps = [Results({"segmentation": (Map(each.astype(np.uint8)),)}) for each in (mask, moved)]
    assert describe_map(*(list_fields(each)["segmentation"] for each in maps)) == "98.00% of the pixels alike"
    pointed = [replace(Box(1, 1, 9, 9, 0.9, 1), points=(Point(x, 3.0),)).as_dict() for x in (1.0, 2.0)]
    assert describe_boxes(pointed[:1], pointed[1:]).endswith("overlaps from 1.000, points within 1.0e+00 pixels")
