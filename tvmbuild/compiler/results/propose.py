"""Proposals of `postprocess` for a network's outputs, by their shapes and their values for one picture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tvmbuild.base.exported import Exported
from tvmbuild.base.postprocess_specs import (
    Boxes,
    Classes,
    Heatmaps,
    Keypoints,
    Masks,
    Postprocess,
    Segmentation,
    Text,
    Vector,
)
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.results.outputs import find_input_size
from tvmbuild.compiler.results.plausible import is_plausible
from tvmbuild.compiler.results.proposal_text import write_line
from tvmbuild.compiler.results.propose_grids import BY_ANCHORS, propose_grids, propose_priors
from tvmbuild.compiler.results.table import describe_results
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo

_STRIDES = (8, 16, 32)
_ANCHORED_GRIDS = ((3, (16, 32)), (5, (32,)))
"""The numbers of anchors and the strides of detectors with fewer grids: the tiny YOLOv3, v4 and v7, and YOLOv2."""
_COCO_POINTS = 17 * 3
_HEATMAP_STRIDE = 4
_MOST_QUERIES = 1000
"""The largest number of objects that a transformer looks for; an SSD has more priors."""
_MAX_CLASSES = 255
_RANK_WITHOUT_BATCH = 2
"""The number of dimensions of boxes that end with their own suppression, and have no batch."""
_VECTORS = (64, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048)
"""The lengths of common embeddings; a classifier rarely has as many classes."""
_BY_FORM = {
    "yolov5": "YOLOv5, v7, darknet's YOLOs, YOLOX with its decoder",
    "yolox": "YOLOX without its decoder",
    "yolov8": "YOLOv8, v9, 11, 12",
    "end2end": "YOLOv10, YOLO26, exports of ultralytics with nms=True",
    "ppyolo": "PP-YOLOE, PicoDet",
    "yolov7_nms": "YOLOv7 with its own suppression",
    "rtdetr": "RT-DETR of ultralytics",
    "dfine": "RT-DETR, D-FINE, Deformable DETR of transformers",
    "detr": "DETR, YOLOS of transformers",
    "ssd_decoded": "SSD with its decoder",
}
"""Name of a form → the networks that have it, for the choice between proposals."""
Asked = tuple[Postprocess, ...]


@dataclass(frozen=True)
class Evidence:
    """The facts about a network besides its shapes."""

    exported: Exported | None = None
    """The words of the exporter beside the graph."""
    probabilities: Collection[str] = ()
    """The names of outputs that end in a softmax."""
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The original's outputs for one picture of random pixels, by name. Empty if it has not run."""


def propose_postprocess(interface: Interface, evidence: Evidence = Evidence()) -> tuple[str, ...]:
    """Return a line of models.yaml for each kind of result that fits the outputs of a network of pictures.

    For a network of ultralytics it is two lines, the first with `preprocess`. A line fits the shapes of the outputs,
    and their values as far as these are known. It is still a proposal, because several meanings may fit. Of several
    lines, each ends with a comment that names its networks.
    """
    if not interface.inputs or len(interface.inputs[0].shape) != 4 or not interface.outputs:
        return ()
    try:
        size = find_input_size(interface, None)
    except TvmbuildError:
        return ()
    asked = dict.fromkeys(_propose(interface.outputs, evidence, size))
    found = [each for each in asked if _fits(interface, each, evidence, size)]
    lines = [_write(each, evidence.exported) for each in found]
    return tuple(map(_add_networks, lines, found)) if len(lines) > 1 else tuple(lines)


def _fits(interface: Interface, asked: Asked, evidence: Evidence, size: tuple[int, int]) -> bool:
    """Return whether a package can make the results, and whether the outputs' values are plausible for them."""
    try:
        forms = describe_results(interface, EntryOptions(postprocess=asked))
    except TvmbuildError:
        return False
    values = [_find_finite(evidence.values.get(each.name)) for each in interface.outputs]
    for result, form in zip(asked, forms, strict=True):
        read = [each for place in form.places if (each := values[place]) is not None]
        if len(read) == len(form.places) and not is_plausible(result, read, size):
            return False
    return True


def _find_finite(values: np.ndarray | None) -> np.ndarray | None:
    """Return values, or None if some are infinite or NaN, as those of random weights may be: they tell nothing."""
    return values if values is not None and np.isfinite(values).all() else None


def _write(asked: Asked, exported: Exported | None) -> str:
    """Return the line of models.yaml; for a network of ultralytics also its line `preprocess`."""
    line = write_line(asked)
    if exported is None or any(isinstance(each, Boxes) and each.form == "rtdetr" for each in asked):
        return line
    resize = "crop" if any(isinstance(each, Classes) for each in asked) else "letterbox"
    return f"preprocess: {{resize: {resize}}}\n{line}"


def _add_networks(line: str, asked: Asked) -> str:
    (first, *_) = asked
    if not isinstance(first, Boxes):
        return line
    networks = BY_ANCHORS.get((first.form, first.anchors, first.strides)) or _BY_FORM.get(first.form)
    return f"{line} # {networks}" if networks else line


def _propose(outputs: tuple[TensorInfo, ...], evidence: Evidence, size: tuple[int, int]) -> Iterator[Asked]:
    first, ready = outputs[0], _tell_ready(outputs[0], evidence)
    if evidence.exported is not None:
        yield from _propose_exported(evidence.exported, outputs, size, ready)
        return
    grids = list(propose_grids(outputs))
    maps = _list_maps(outputs, size)
    rest = [each for each in outputs if each.name not in maps]
    separate = _propose_separate(outputs)
    found: list[Asked] = [(each,) for each in _propose_text(first.shape, size, ready)]
    found += [(each,) for each in (grids or separate or _propose_boxes(rest, size))]
    if maps:
        found.append(tuple(Segmentation((name,)) for name in maps))
    elif not any(isinstance(each, Boxes) and each.form in _MAPS for each in grids):
        places = enumerate(outputs[:2])
        found += [(each,) for place, info in places for each in _propose_map(info, size, place)]
    yield from found or [(each,) for each in _propose_vector(first.shape, ready)]


_MAPS = ("yolov3_raw", "yolov5_raw", "centernet")


def _tell_ready(info: TensorInfo, evidence: Evidence) -> bool | None:
    """Return whether an output has probabilities, or None if its values decide."""
    return None if info.name in evidence.values else info.name in evidence.probabilities


def _propose_exported(
    exported: Exported, outputs: Sequence[TensorInfo], size: tuple[int, int], ready: bool | None
) -> list[Asked]:
    """Return the kinds of results that fit the outputs and the exporter's task (detection, segmentation …)."""
    kind, shape = exported.kind, outputs[0].shape
    found: list[Classes | Segmentation | Boxes] = []
    if kind == "classes":
        found = [each for each in _propose_vector(shape, ready) if isinstance(each, Classes)]
    elif kind == "segmentation":
        found = [each for each in _propose_map(outputs[0], size, 0) if isinstance(each, Segmentation)]
    elif kind is not None and len(shape) == 3:
        prototypes = next((each.shape[1] for each in outputs[1:] if len(each.shape) == 4), 0)
        more = {"boxes": 0, "masks": prototypes, "keypoints": exported.points * exported.values}[kind]
        for form in _list_forms(shape[1:], _count_cells(size, _STRIDES), more):
            if kind == "keypoints":
                found.append(Keypoints(form, points=exported.points, values=exported.values))
            else:
                found.append(Masks(form) if kind == "masks" else Boxes(form))
    return [(replace(each, labels=exported.names),) for each in found]


def _propose_separate(outputs: Sequence[TensorInfo]) -> list[Postprocess]:
    """Return the form with separate scores, boxes and classes, if three outputs have their shapes."""
    shapes = {each.name: each.shape[1:] if each.shape[:1] == (1,) else each.shape for each in outputs}
    boxes = [name for name, shape in shapes.items() if len(shape) == 2 and shape[1] == 4]
    lines = [each for each in outputs if boxes and shapes[each.name] == shapes[boxes[0]][:1]]
    kinds = [each.name for each in lines if "float" not in each.dtype]
    scores = [each.name for each in lines if "float" in each.dtype]
    if not (len(boxes) == len(kinds) == len(scores) == 1):
        return []
    return [Boxes("separate", (scores[0], boxes[0], kinds[0]))]


def _list_maps(outputs: Sequence[TensorInfo], size: tuple[int, int]) -> list[str]:
    """Return the names of outputs with scores for each pixel of the input, if there are several."""
    names = [
        each.name
        for each in outputs
        if each.shape[:1] == (1,) and each.shape[2:] == size and 1 < each.shape[1] <= _MAX_CLASSES
    ]
    return names if len(names) > 1 else []


def _propose_boxes(outputs: Sequence[TensorInfo], size: tuple[int, int]) -> list[Boxes]:
    """Return the forms of boxes that the first outputs may have. Known priors exclude all but decoded boxes."""
    found, priors = _propose_rows([each.shape for each in outputs], size), list(propose_priors(outputs))
    return [*priors, *(each for each in found if each.form == "ssd_decoded")] if priors else found


def _propose_rows(shapes: Sequence[tuple[int, ...]], size: tuple[int, int]) -> list[Boxes]:
    first, *others = shapes or [()]
    if len(first) == _RANK_WITHOUT_BATCH and first[0] > 1:
        return [Boxes(form) for form in {6: ("end2end", "ppyolo"), 7: ("yolov7_nms",)}.get(first[1], ())]
    if len(first) != 3 or first[0] != 1:
        return []
    _, rows, values = first
    behind = others[0] if others else ()
    if behind == (1, rows, 4) and values > 1:
        return [Boxes(form) for form in (("ssd_decoded",) if rows > _MOST_QUERIES else ("dfine", "detr"))]
    coefficients = behind[1] if len(behind) == 4 and behind[0] == 1 else 0
    make, more = Boxes, 0
    if coefficients and max(rows, values) > coefficients:
        make, more = Masks, coefficients
    elif _COCO_POINTS + 5 in {rows, values} or values == _COCO_POINTS + 6:
        make, more = Keypoints, _COCO_POINTS
    anchored = {many * _count_cells(size, grids) for many, grids in _ANCHORED_GRIDS}
    if not more and values > 5 and rows in anchored:
        return [Boxes("yolov5")]
    return [make(form) for form in _list_forms((rows, values), _count_cells(size, _STRIDES), more)]


def _count_cells(size: tuple[int, int], strides: Sequence[int]) -> int:
    height, width = size
    return sum((height // stride) * (width // stride) for stride in strides)


def _list_forms(sizes: tuple[int, ...], cells: int, more: int) -> list[str]:
    """Return the forms that an output [1, rows, values] may have, with ``more`` values after the scores."""
    rows, values = sizes
    if 0 < rows < cells and values == 6 + more:
        return ["end2end"]
    if values == cells and rows > 4 + more:
        return ["yolov8"]
    if rows == cells and values > 5 + more:
        return ["yolox", "yolov5"] if not more else ["yolov5"]
    if rows > cells and values > 5 + more:
        return ["yolov5"]
    return ["rtdetr"] if 0 < rows < cells // 4 and values > 5 and not more else []


def _propose_map(info: TensorInfo, size: tuple[int, int], place: int) -> list[Postprocess]:
    """Return the kinds of results that fit an output with a value for each pixel."""
    shape, named = info.shape, () if place == 0 else (info.name,)
    if len(shape) not in (3, 4) or shape[0] != 1:
        return []
    if len(shape) == 3:
        return [] if "float" in info.dtype else [Segmentation(named)]
    if not 1 < shape[1] <= _MAX_CLASSES or place > 0:
        return []
    heatmaps = [Heatmaps()] if shape[-1] * _HEATMAP_STRIDE == size[1] else []
    return [Segmentation(), *heatmaps]


def _propose_vector(shape: tuple[int, ...], ready: bool | None) -> list[Postprocess]:
    """Return the kinds of results that fit one row of numbers. ``ready``: True if they are probabilities."""
    if len(shape) != 2 or shape[0] != 1 or shape[1] < 2:
        return []
    if ready:
        return [Classes(activation="none")]
    vector: list[Postprocess] = [Vector()] if shape[1] in _VECTORS else []
    return [*vector, Classes(), *([Classes(activation="none")] if ready is None else [])]


def _propose_text(shape: tuple[int, ...], size: tuple[int, int], ready: bool | None) -> list[Postprocess]:
    """Return whether an output may be a line of text: a wide picture, and a column of scores for each of its steps."""
    height, width = size
    is_line = len(shape) == 3 and 1 in shape[:2] and width >= 2 * height
    if not is_line or not 1 < shape[0] * shape[1] <= width or shape[2] <= 10:
        return []
    return [
        Text(activation=each)
        for each in (("softmax", "none") if ready is None else ("none",) if ready else ("softmax",))
    ]
