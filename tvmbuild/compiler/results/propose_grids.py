"""The detectors whose outputs are several grids, or boxes relative to priors: those that known networks have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import Boxes, Keypoints
from tvmbuild.package.metadata import TensorInfo

Anchors = tuple[tuple[float, ...], ...]


class Known(NamedTuple):
    """The anchors of a family of networks, from the finest grid on."""

    form: str
    networks: str
    anchors: Anchors
    strides: tuple[float, ...] = ()


_V3: Anchors = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))
_V4: Anchors = ((12, 16, 19, 36, 40, 28), (36, 75, 76, 55, 72, 146), (142, 110, 192, 243, 459, 401))
_RAW = (
    Known("yolov5_raw", "YOLOv5, YOLOv7-tiny", _V3),
    Known("yolov5_raw", "YOLOv7", _V4),
    Known("yolov3_raw", "YOLOv3", _V3),
    Known("yolov3_raw", "YOLOv4", _V4),
    Known("yolov3_raw", "YOLOv3-tiny, v4-tiny", ((10, 14, 23, 27, 37, 58), (81, 82, 135, 169, 344, 319))),
)
_LIGHT: Anchors = ((10, 10, 16, 16, 24, 24), (32, 32, 48, 48), (64, 64, 96, 96), (128, 128, 192, 192, 256, 256))
_RETINA: Anchors = ((16, 16, 32, 32), (64, 64, 128, 128), (256, 256, 512, 512))
_PRIORS = (
    Known("ssd_softmax", "Ultra-Light faces", _LIGHT, (8, 16, 32, 64)),
    Known("ssd", "Ultra-Light faces without their softmax", _LIGHT, (8, 16, 32, 64)),
    Known("ssd_softmax", "RetinaFace", _RETINA, (8, 16, 32)),
    Known("ssd", "RetinaFace without its softmax", _RETINA, (8, 16, 32)),
    Known("blazeface", "BlazeFace, palms of 192 pixels", ((1, 1) * 2, (1, 1) * 6), (8, 16)),
    Known("blazeface", "BlazeFace of the back camera", ((1, 1) * 2, (1, 1) * 6), (16, 32)),
    Known("blazeface", "palms of 256 pixels", ((1, 1) * 2, (1, 1) * 2, (1, 1) * 6), (8, 16, 32)),
)
BY_ANCHORS = {
    (each.form, anchors, each.strides): each.networks
    for each in (*_RAW, *_PRIORS)
    for anchors in (each.anchors[::-1], each.anchors)
}
"""Form, anchors and strides → the networks that have them, with the finest grid or the coarsest first."""
_BOX, _PLACE = 4, 2
_PICTURE = 4
"""The number of axes of a map."""
_RAW_AXES = (4, 5)


def propose_grids(outputs: Sequence[TensorInfo]) -> Iterator[Boxes]:
    """Yield the results that outputs with grids of cells may mean by their numbers and axes.

    Whether the sizes fit is for `describe_results`.
    """
    yield from _propose_split_rows(outputs)
    shapes = [each.shape for each in outputs]
    is_raw = len({(len(shape), *shape[:2]) for shape in shapes}) == 1 and len(shapes[0]) in _RAW_AXES
    for known in _RAW:
        if is_raw and len(known.anchors) == len(shapes):
            coarse_first = (
                shapes[0][-2] < shapes[-1][-2] if len(shapes[0]) == _PICTURE else shapes[0][2] < shapes[-1][2]
            )
            yield Boxes(known.form, anchors=known.anchors[::-1] if coarse_first else known.anchors)
    if len(shapes) == len(GRID_FORMS["centernet"].parts) and all(len(shape) == _PICTURE for shape in shapes):
        heat, *pairs = shapes
        if all(shape == (1, _PLACE, *heat[2:]) for shape in pairs):
            yield Boxes("centernet")


def _propose_split_rows(outputs: Sequence[TensorInfo]) -> Iterator[Boxes]:
    """Yield the forms whose grids are rows [1, cells, values], in the order of the form or grid by grid."""
    if any(len(each.shape) != 3 for each in outputs):
        return
    for name, asked in (("yunet", Keypoints("yunet", points=5, values=_PLACE)), ("nanodet", Boxes("nanodet"))):
        count = len(GRID_FORMS[name].parts)
        levels = [list(each) for _, each in groupby(outputs, lambda each: each.shape[1])]
        if len(outputs) % count or len(outputs) == count:
            continue
        if len(levels) == len(outputs) // count:  # all parts of one grid, then those of the next
            named = tuple(each.name for part in zip(*levels, strict=False) for each in part)
            yield type(asked)(**{**vars(asked), "outputs": named})
        else:
            yield asked


def propose_priors(outputs: Sequence[TensorInfo]) -> Iterator[Boxes]:
    """Yield the results with priors of known networks: scores [1, boxes, classes] and [1, boxes, 4 or more]."""
    rows = [each for each in outputs if len(each.shape) == 3 and each.shape[0] == 1]
    for known in _PRIORS:
        one = known.form == "blazeface"
        scores = [each for each in rows if each.shape[2] == (1 if one else 2)]
        boxes = [each for each in rows if (each.shape[2] > _BOX if one else each.shape[2] == _BOX)]
        if len(scores) == len(boxes) == 1:
            named = (scores[0].name, boxes[0].name)
            in_order = tuple(each.name for each in outputs[:2]) == named
            yield Boxes(known.form, () if in_order else named, anchors=known.anchors, strides=known.strides)
