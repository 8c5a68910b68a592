"""Proposals for the meaning of a network's outputs, by their shapes."""

from __future__ import annotations

from collections.abc import Sequence

from tvmbuild.compiler.interface import Interface
from tvmbuild.compiler.results.outputs import find_input_size
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


def propose_postprocess(interface: Interface) -> tuple[str, ...]:
    """Return a line of models.yaml for each meaning that the outputs of a network of pictures may have.

    Only shapes and types are looked at, so that a line is a proposal.
    """
    if not interface.inputs or len(interface.inputs[0].shape) != 4 or not interface.outputs:
        return ()
    try:
        size = find_input_size(interface, None)
    except TvmbuildError:
        return ()
    outputs = interface.outputs
    found = _propose_text(outputs[0].shape, size)
    maps = _list_maps(outputs, size)
    rest = [each for each in outputs if each.name not in maps]
    found += _propose_separate(outputs) or _propose_boxes([each.shape for each in rest], size)
    if maps:
        found.append(f"segmentation: [{', '.join(f'{{output: {name}}}' for name in maps)}]")
    else:
        found += [line for place, each in enumerate(outputs[:2]) for line in _propose_map(each, size, place)]
    found = found or _propose_vector(outputs[0].shape)
    return tuple(f"postprocess: {{{each}}}" for each in found)


def _propose_separate(outputs: Sequence[TensorInfo]) -> list[str]:
    """Return the form with separate scores, boxes and classes, if three outputs have their shapes."""
    shapes = {each.name: each.shape[1:] if each.shape[:1] == (1,) else each.shape for each in outputs}
    boxes = [name for name, shape in shapes.items() if len(shape) == 2 and shape[1] == 4]
    lines = [each for each in outputs if boxes and shapes[each.name] == shapes[boxes[0]][:1]]
    kinds = [each.name for each in lines if "float" not in each.dtype]
    scores = [each.name for each in lines if "float" in each.dtype]
    if not (len(boxes) == len(kinds) == len(scores) == 1):
        return []
    return [f"boxes: {{form: separate, output: {scores[0]}, boxes: {boxes[0]}, classes: {kinds[0]}}}"]


def _list_maps(outputs: Sequence[TensorInfo], size: tuple[int, int]) -> list[str]:
    """Return the names of outputs with scores for each pixel of the input, if there are several."""
    names = [
        each.name
        for each in outputs
        if each.shape[:1] == (1,) and each.shape[2:] == size and 1 < each.shape[1] <= _MAX_CLASSES
    ]
    return names if len(names) > 1 else []


def _propose_boxes(shapes: Sequence[tuple[int, ...]], size: tuple[int, int]) -> list[str]:
    """Return the forms of boxes that the first outputs may have."""
    cells = _count_cells(size, _STRIDES)
    first, *others = shapes or [()]
    if len(first) == _RANK_WITHOUT_BATCH and first[0] > 1:
        return {6: ["boxes: {form: end2end}", "boxes: {form: ppyolo}"], 7: ["boxes: {form: yolov7_nms}"]}.get(
            first[1], []
        )
    if len(first) != 3 or first[0] != 1:
        return []
    _, rows, values = first
    behind = others[0] if others else ()
    if behind == (1, rows, 4) and values > 1:
        if rows > _MOST_QUERIES:
            return ["boxes: {form: ssd, strides: …, anchors: …}", "boxes: {form: ssd_decoded}"]
        return ["boxes: {form: dfine}", "boxes: {form: detr}"]
    coefficients = behind[1] if len(behind) == 4 and behind[0] == 1 else 0
    if coefficients and max(rows, values) > coefficients:
        kind, more = "masks", coefficients
    elif _COCO_POINTS + 5 in {rows, values} or values == _COCO_POINTS + 6:
        kind, more = "keypoints", _COCO_POINTS
    else:
        kind, more = "boxes", 0
    if kind == "boxes" and values > 5 and rows in {many * _count_cells(size, grids) for many, grids in _ANCHORED_GRIDS}:
        return ["boxes: {form: yolov5}"]
    return [f"{kind}: {{form: {form}}}" for form in _propose_forms((rows, values), cells, more)]


def _count_cells(size: tuple[int, int], strides: Sequence[int]) -> int:
    height, width = size
    return sum((height // stride) * (width // stride) for stride in strides)


def _propose_forms(sizes: tuple[int, int], cells: int, more: int) -> list[str]:
    """Return the forms that an output [1, rows, values] may have, with ``more`` values behind the scores."""
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


def _propose_map(info: TensorInfo, size: tuple[int, int], place: int) -> list[str]:
    """Return the meanings that an output with a value for each pixel may have."""
    (height, width), shape = size, info.shape
    ready = len(shape) == 3 and "float" not in info.dtype
    if len(shape) not in (3, 4) or shape[0] != 1 or shape[-2] * width != shape[-1] * height:
        return []
    named = "" if place == 0 else f"output: {info.name}"
    if ready:
        return [f"segmentation: {{{named}}}"]
    if len(shape) == 3 or not 1 < shape[1] <= _MAX_CLASSES or place > 0:
        return []
    if shape[-1] * _HEATMAP_STRIDE == width:
        return ["segmentation: {}", "heatmaps: {}"]
    return ["segmentation: {}"]


def _propose_vector(shape: tuple[int, ...]) -> list[str]:
    if len(shape) != 2 or shape[0] != 1 or shape[1] < 2:
        return []
    return ["vector: {}", "classes: {}"] if shape[1] in _VECTORS else ["classes: {}"]


def _propose_text(shape: tuple[int, ...], size: tuple[int, int]) -> list[str]:
    """Return whether an output may be a line of text: a wide picture, and a column of scores for each of its steps."""
    height, width = size
    is_line = len(shape) == 3 and 1 in shape[:2] and width >= 2 * height
    return ["text: {}"] if is_line and 1 < shape[0] * shape[1] <= width and shape[2] > 10 else []
