"""Outputs of another network are refused by their shapes, and outputs of real networks are not."""

from __future__ import annotations

import pytest

from tvmbuild.base.postprocess_specs import Boxes, Heatmaps, Keypoints, Postprocess, Segmentation
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.results.table import describe_results
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo

pytestmark = pytest.mark.compiler
Shapes = list[tuple[int, ...]]
YUNET: Shapes = [(1, cells, values) for values in (1, 1, 4, 10) for cells in (1600, 400, 100)]
REFUSED: dict[str, tuple[Postprocess, tuple[int, int], Shapes, str]] = {
    "a grid of YuNet as a map": (Segmentation(), (320, 320), YUNET, "the proportions of the input of 320 by 320"),
    "a grid of YuNet as YOLOv8": (
        Boxes("yolov8"),
        (320, 320),
        YUNET,
        r"100 or more; out0 .* would have 1 of 1596 classes",
    ),
    "YOLOX as YOLOv8": (Boxes("yolov8"), (416, 416), [(1, 3549, 85)], "169 or more; .* would have 85 of 3545 classes"),
    "YOLOv8 as YOLOv5": (Boxes("yolov5"), (640, 640), [(1, 84, 8400)], "400 or more; .* would have 84 of 8395 classes"),
    "masks as boxes": (
        Boxes("yolov8"),
        (640, 640),
        [(1, 116, 8400), (1, 32, 160, 160)],
        "would have 112 classes, 32 of them the coefficients of the prototypes out1",
    ),
    "a map of another picture": (Segmentation(), (480, 640), [(1, 21, 640, 480)], "the proportions of the input"),
    "a column as heatmaps": (Heatmaps(), (256, 256), [(1, 17, 64, 1)], "`heatmaps` needs a map with the proportions"),
}
TAKEN: dict[str, tuple[Postprocess, tuple[int, int], Shapes]] = {
    "YuNet": (Keypoints("yunet", points=5, values=2), (320, 320), YUNET),
    "YOLOv8 of one class": (Boxes("yolov8"), (640, 640), [(1, 5, 8400)]),
    "YOLOv8 of a small picture": (Boxes("yolov8"), (64, 64), [(1, 84, 84)]),
    "few boxes of few classes": (Boxes("yolov8"), (640, 640), [(1, 6, 50)]),
    "masks as boxes, if the output is named": (
        Boxes("yolov8", ("out0",)),
        (640, 640),
        [(1, 116, 8400), (1, 32, 160, 160)],
    ),
    "YOLOP": (Boxes("yolov5"), (640, 640), [(1, 25200, 6), (1, 2, 640, 640), (1, 2, 640, 640)]),
    "YOLOv8 of a few classes, and a map": (Boxes("yolov8"), (640, 640), [(1, 84, 8400), (1, 5, 160, 160)]),
    "YOLOv2": (Boxes("yolov5"), (416, 416), [(1, 845, 25)]),
    "YOLOv5 with four grids": (Boxes("yolov5"), (1280, 1280), [(1, 102000, 85)]),
    "DeepLab, which rounds": (Segmentation(), (375, 500), [(1, 21, 47, 63)]),
    "FCN, which rounds": (Segmentation(), (513, 513), [(1, 19, 65, 65)]),
    "a map that cuts off": (Segmentation(), (1080, 1920), [(1, 2, 33, 60)]),
    "a map of a network that pads inside": (Segmentation(), (375, 1242), [(1, 2, 384, 1248)]),
    "a map of convolutions without padding": (Segmentation(), (512, 1024), [(1, 19, 60, 124)]),
    "few boxes of many classes, if the output is named": (Boxes("yolov8", ("out0",)), (640, 640), [(1, 369, 300)]),
    "heatmaps of a person": (Heatmaps(), (256, 192), [(1, 17, 64, 48)]),
}


def describe(asked: Postprocess, size: tuple[int, int], shapes: Shapes) -> None:
    outputs = tuple(TensorInfo(f"out{place}", shape, "float32") for place, shape in enumerate(shapes))
    interface = Interface("net", (TensorInfo("picture", (1, 3, *size), "float32"),), outputs)
    describe_results(interface, EntryOptions(None, (), (asked,)))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    asked, size, shapes, message = REFUSED[name]
    with pytest.raises(TvmbuildError, match=message):
        describe(asked, size, shapes)


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    describe(*TAKEN[name])
