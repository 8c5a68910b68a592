"""Small networks for every kind of result and every form of boxes: the shapes of their outputs, and the result."""

from __future__ import annotations

import onnx
from detector_nets import add_priors, make_detector
from detector_tails import detect, torchvision
from frame_cells import SIZE

from tvmbuild.base.postprocess_specs import (
    BOX_FORMS,
    Boxes,
    Classes,
    Heatmaps,
    Keypoints,
    Masks,
    Postprocess,
    Raw,
    Segmentation,
    Text,
    Vector,
)

ANCHORS = ((10.0, 13.0, 33.0, 23.0), (30.0, 21.0, 45.0, 30.0))
CELLS = {stride: (SIZE[0] // stride, SIZE[1] // stride) for stride in (8, 16)}
COUNTS = [rows * columns for rows, columns in CELLS.values()]


def list_rows(*values: int) -> list[list[int]]:
    """Return the shapes of outputs with cells as rows: for each number of values, all grids."""
    return [[1, count, each] for each in values for count in COUNTS]


def list_maps(*values: int) -> list[list[int]]:
    """Return the shapes of outputs with cells as maps."""
    return [[1, each, *sides] for each in values for sides in CELLS.values()]


GRIDS: dict[str, tuple[list[list[int]], Postprocess]] = {
    "yolov3_raw": (list_maps(2 * 8), Boxes("yolov3_raw", score=0.5, anchors=ANCHORS)),
    "yolov5_raw": ([[1, 2, *sides, 8] for sides in CELLS.values()], Boxes("yolov5_raw", score=0.5, anchors=ANCHORS)),
    "yunet": (list_rows(1, 1, 4, 10), Keypoints("yunet", score=0.5, points=5, values=2)),
    "nanodet": (list_rows(3, 4 * 8), Boxes("nanodet", score=0.5)),
    "centernet": (list_maps(3, 2, 2), Boxes("centernet", score=0.5)),
}
PLAIN = sum((SIZE[0] // stride) * (SIZE[1] // stride) for stride in (8, 16, 32))
PRIORS = 144
"""The number of the priors of `add_priors` for pictures of this size."""


def _make_ssd(form: str, scores: int) -> tuple[list[list[int]], Postprocess]:
    """Return the case of a form whose boxes are beside their scores, with priors if it has some."""
    # Corners of no meaning make boxes without an area, about whose overlap OpenCV and the reference differ.
    asked, _ = add_priors(Boxes(form, score=0.3, overlap=1.0 if BOX_FORMS[form].corners else 0.3), SIZE)
    return [[1, PRIORS, scores], [1, PRIORS, 16 if form == "blazeface" else 4]], asked


FORMS: dict[str, tuple[list[list[int]], Postprocess]] = {
    "yolov5": ([[1, 80, 8]], Boxes("yolov5", score=0.5, overlap=0.3)),
    "yolov8": ([[1, 7, 80]], Boxes("yolov8", score=0.5, overlap=0.3, agnostic=True)),
    "yolox": ([[1, PLAIN, 8]], Boxes("yolox", score=0.5)),
    "end2end": ([[1, 80, 6]], Boxes("end2end", score=0.5)),
    "separate": ([[1, 80], [1, 80, 4], [1, 80]], Boxes("separate", ("out0", "out1", "out2"), score=0.5)),
    "ppyolo": ([[80, 6]], Boxes("ppyolo", score=0.5)),
    "yolov7_nms": ([[80, 7]], Boxes("yolov7_nms", score=0.5)),
    "rtdetr": ([[1, 80, 7]], Boxes("rtdetr", score=0.5)),
    "detr": ([[1, 30, 4], [1, 30, 4]], Boxes("detr", score=0.3)),
    "dfine": ([[1, 30, 4], [1, 30, 4]], Boxes("dfine", score=0.3)),
    "ssd": _make_ssd("ssd", 4),
    "ssd_softmax": _make_ssd("ssd_softmax", 3),
    "ssd_tf": _make_ssd("ssd_tf", 3),
    "ssd_decoded": _make_ssd("ssd_decoded", 3),
    "blazeface": _make_ssd("blazeface", 1),
}
OTHERS: dict[str, tuple[list[list[int]], Postprocess]] = {
    "counted": ([], Boxes("separate", ("end1", "end0", "end2"), score=0.4)),
    "masks": ([[1, 4 + 3 + 6, 80], [1, 6, 16, 24]], Masks("yolov8", score=0.5, overlap=0.3, most=20)),
    "masks of the input": (
        [[1, 4 + 3 + 6, 80], [1, 6, 16, 24]],
        Masks("yolov8", score=0.5, overlap=0.3, most=20, resolution="input"),
    ),
    "keypoints": ([[1, 17, 80]], Keypoints("yolov8", score=0.5, most=30, points=4)),
    "classes": ([[1, 50]], Classes()),
    "text": ([[1, 30, 9]], Text(activation="softmax")),
    "vector": ([[1, 300]], Vector()),
    "map": ([[1, 5, 16, 24]], Segmentation()),
    "map with one score": (
        [[1, 1, 16, 24]],
        Segmentation(activation="sigmoid", score=0.7, interpolation="nearest"),
    ),
    "map of the input": ([[1, 5, 16, 24]], Segmentation(resolution="input")),
    "heatmaps": ([[1, 5, 16, 24]], Heatmaps()),
    "raw": ([[1, 7], [2, 3, 4]], Raw(("out1", "out0"))),
}
CASES = {**FORMS, **GRIDS, **OTHERS}


def make_case(case: str) -> onnx.ModelProto:
    """Return the network of a case. That of `counted` ends with its own suppression."""
    if case == "counted":
        return detect(torchvision(), SIZE)
    spread = 20 if case in {*OTHERS, "yolov5", "yolov8", "end2end"} - {"heatmaps", "map"} else 0
    return make_detector(CASES[case][0], SIZE, spread=spread)
