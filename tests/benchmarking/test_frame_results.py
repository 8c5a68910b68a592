"""The frames' part of result.json, and the words in which two ways' results are compared."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from benchmark_results import make_framed, make_result

from tvmbuild.benchmarking.frames.agreement import describe_boxes, describe_classes, describe_outputs
from tvmbuild.benchmarking.frames.contest import find_percentile
from tvmbuild.benchmarking.frames.results import FrameCheck, FrameResult
from tvmbuild.benchmarking.results import EmulatedResult, read_emulated, read_result
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.package.results import Box, Class


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
    outputs = {"y": np.array([1.0, 4.0])}
    assert describe_outputs({"y": np.array([1.0, 4.2])}, outputs) == "outputs within 5.0e-02 of the largest"
