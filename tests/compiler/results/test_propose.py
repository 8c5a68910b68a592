"""`tvmbuild check` proposes what a network's outputs may mean."""

from __future__ import annotations

import pytest

from tvmbuild.compiler.interface import Interface
from tvmbuild.compiler.results.propose import propose_postprocess
from tvmbuild.package.metadata import TensorInfo

pytestmark = pytest.mark.compiler
PICTURE = (1, 3, 640, 640)


@pytest.mark.parametrize(
    ("picture", "outputs", "want"),
    [
        (PICTURE, [(1, 84, 8400)], ["boxes: {form: yolov8}"]),
        (PICTURE, [(1, 25200, 85)], ["boxes: {form: yolov5}"]),
        (PICTURE, [(1, 25200, 6)], ["boxes: {form: yolov5}"]),
        (PICTURE, [(1, 8400, 6)], ["boxes: {form: yolox}", "boxes: {form: yolov5}"]),
        (PICTURE, [(1, 300, 6)], ["boxes: {form: end2end}"]),
        (PICTURE, [(1, 300, 84)], ["boxes: {form: rtdetr}"]),
        (PICTURE, [(1, 300, 80), (1, 300, 4)], ["boxes: {form: dfine}", "boxes: {form: detr}"]),
        ((1, 3, 416, 416), [(1, 3549, 85)], ["boxes: {form: yolox}", "boxes: {form: yolov5}"]),
        ((1, 3, 416, 416), [(1, 2535, 85)], ["boxes: {form: yolov5}"]),  # YOLOv3-tiny
        ((1, 3, 416, 416), [(1, 845, 25)], ["boxes: {form: yolov5}"]),  # YOLOv2
        ((1, 224, 224, 3), [(1, 1000)], ["classes: {}"]),
        (PICTURE, [(1, 116, 8400), (1, 32, 160, 160)], ["masks: {form: yolov8}"]),
        (PICTURE, [(1, 25200, 117), (1, 32, 160, 160)], ["masks: {form: yolov5}"]),
        (PICTURE, [(1, 300, 38), (1, 32, 160, 160)], ["masks: {form: end2end}"]),
        (PICTURE, [(1, 56, 8400)], ["keypoints: {form: yolov8}"]),
        (PICTURE, [(1, 300, 57)], ["keypoints: {form: end2end}"]),
        (PICTURE, [(1, 21, 640, 640)], ["segmentation: {}"]),
        (
            (1, 3, 240, 320),
            [(1, 4420, 2), (1, 4420, 4)],
            ["boxes: {form: ssd, strides: …, anchors: …}", "boxes: {form: ssd_decoded}"],
        ),
        (PICTURE, [(120, 7)], ["boxes: {form: yolov7_nms}"]),
        (PICTURE, [(120, 6), (1,)], ["boxes: {form: end2end}", "boxes: {form: ppyolo}"]),
        (
            PICTURE,
            [(1, 25200, 6), (1, 2, 640, 640), (1, 2, 640, 640)],
            ["boxes: {form: yolov5}", "segmentation: [{output: out1}, {output: out2}]"],
        ),
        ((1, 3, 256, 192), [(1, 17, 64, 48)], ["segmentation: {}", "heatmaps: {}"]),
        ((1, 3, 48, 320), [(1, 40, 97)], ["text: {}", "boxes: {form: rtdetr}"]),
        ((1, 3, 32, 100), [(26, 1, 37)], ["text: {}"]),
        ((1, 3, 160, 160), [(1, 512)], ["vector: {}", "classes: {}"]),
        (PICTURE, [], []),
        ((1, 16), [(1, 1000)], []),
    ],
)
def test_proposals(picture: tuple[int, ...], outputs: list[tuple[int, ...]], want: list[str]) -> None:
    infos = tuple(TensorInfo(f"out{place}", shape, "float32") for place, shape in enumerate(outputs))
    got = propose_postprocess(Interface("net", (TensorInfo("picture", picture, "float32"),), infos))
    assert list(got) == [f"postprocess: {{{each}}}" for each in want]


def test_scores_boxes_and_classes_may_be_apart() -> None:
    """RT-DETR's own repository exports it with the size of the picture as a second input."""
    inputs = (TensorInfo("images", PICTURE, "float32"), TensorInfo("orig_target_sizes", (1, 2), "int64"))
    outputs = (
        TensorInfo("labels", (1, 300), "int64"),
        TensorInfo("boxes", (1, 300, 4), "float32"),
        TensorInfo("scores", (1, 300), "float32"),
    )
    got = propose_postprocess(Interface("net", inputs, outputs))
    assert got == ("postprocess: {boxes: {form: separate, output: scores, boxes: boxes, classes: labels}}",)
    short = tuple(TensorInfo(each.name, each.shape[1:], each.dtype) for each in outputs)
    assert propose_postprocess(Interface("net", inputs, short)) == got
