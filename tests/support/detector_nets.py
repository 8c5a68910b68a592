"""Small networks whose outputs have the forms of detectors and classifiers, and what plain NumPy makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import BOX_FORMS, VARIANCES, Boxes, BoxForm

_BOXES = 3
"""The number of axes of an output with boxes."""
Outputs = Sequence[np.ndarray]
Found = list[tuple[float, int, tuple[float, ...]]]
"""Score, class and box (left, top, right, bottom) of each result, the best first."""


def make_detector(
    shapes: Sequence[Sequence[int]], size: tuple[int, int], seed: int = 0, spread: float = 0
) -> onnx.ModelProto:
    """Return a network of one picture [1, 3, height, width] whose outputs have these shapes and depend on all pixels.

    Each output is a function of the mean colours; its values are boxes and scores of no meaning, and not negative. With
    ``spread``, the first four values of each box [1, values, boxes] or [1, boxes, values] have this deviation, and
    outputs of other forms may be negative.
    """
    generator = np.random.default_rng(seed)
    nodes = [helper.make_node("GlobalAveragePool", ["picture"], ["mean"]), _reshape("mean", "row", [1, 3])]
    weights = {}
    for number, shape in enumerate(shapes):
        count = int(np.prod(shape))
        weights[f"w{number}"] = generator.normal(0, 2, (3, count)).astype(np.float32)
        weights[f"b{number}"] = generator.normal(0, 1, count).astype(np.float32)
        if spread and len(shape) == _BOXES:
            scale = np.ones(shape, np.float32)
            (scale[:, :4] if shape[1] < shape[2] else scale[:, :, :4])[...] = spread
            weights[f"b{number}"] *= scale.ravel()
        nodes.append(helper.make_node("Gemm", ["row", f"w{number}", f"b{number}"], [f"flat{number}"]))
        nodes.append(
            helper.make_node(
                "Identity" if spread and len(shape) != _BOXES else "Abs", [f"flat{number}"], [f"positive{number}"]
            )
        )
        nodes.append(_reshape(f"positive{number}", f"out{number}", list(shape)))
    for node in nodes:
        if node.op_type == "Reshape":
            weights[node.input[1]] = np.array([int(each) for each in node.doc_string.split()], np.int64)
            node.doc_string = ""
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, *size])],
        [
            helper.make_tensor_value_info(f"out{number}", TensorProto.FLOAT, list(shape))
            for number, shape in enumerate(shapes)
        ],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def make_varying_detector(seed: int = 0) -> onnx.ModelProto:
    """Return a network of one picture [1, 3, H, W] with boxes [1, 7, H * W / 64] of three classes, as YOLOv8's."""
    generator = np.random.default_rng(seed)
    weights = {
        "boxes.w": generator.normal(0, 30, (4, 3, 1, 1)).astype(np.float32),
        "boxes.b": generator.uniform(10, 40, 4).astype(np.float32),
        "scores.w": generator.normal(0, 9, (3, 3, 1, 1)).astype(np.float32),
        "form": np.array([1, 7, -1], np.int64),
    }
    nodes = [
        helper.make_node("AveragePool", ["images"], ["cells"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Conv", ["cells", "boxes.w", "boxes.b"], ["sides"]),
        helper.make_node("Abs", ["sides"], ["boxes"]),
        helper.make_node("Conv", ["cells", "scores.w"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
        helper.make_node("Concat", ["boxes", "scores"], ["all"], axis=1),
        helper.make_node("Reshape", ["all", "form"], ["found"]),
    ]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, "height", "width"])],
        [helper.make_tensor_value_info("found", TensorProto.FLOAT, [1, 7, "count"])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def add_factor(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the network with one more input, `factor` [1], by which its first output is multiplied."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    name = graph.output[0].name
    for node in graph.node:
        node.output[:] = ["before" if each == name else each for each in node.output]
    graph.node.append(helper.make_node("Mul", ["before", "factor"], [name]))
    graph.input.append(helper.make_tensor_value_info("factor", TensorProto.FLOAT, [1]))
    return changed


def _reshape(source: str, name: str, shape: Sequence[int]) -> onnx.NodeProto:
    node = helper.make_node("Reshape", [source, f"{name}_shape"], [name])
    node.doc_string = " ".join(map(str, shape))
    return node


def _draw_boxes(form: BoxForm, count: int, generator: np.random.Generator) -> np.ndarray:
    width, height = 640, 480
    centres = generator.uniform(0, 1, (count, 2)) * (width, height)
    sides = generator.uniform(10, 200, (count, 2))
    boxes = np.concatenate([centres, sides], axis=1)
    if form.strides:
        boxes = generator.uniform(-1, 2, (count, 4))
    elif form.corners:
        boxes = np.concatenate([centres - sides / 2, centres + sides / 2], axis=1)
    if form.normalised:
        boxes = boxes / (width, height, width, height)
    if form.priors != "none":
        boxes = generator.normal(0, 2 if form.normalised else 40, (count, 4))
    return boxes


STRIDES, ANCHORS = (8.0, 16.0), ((20.0, 10.0), (30.0, 30.0, 40.0, 60.0))
"""Grids with one anchor and with two."""


def add_priors(asked: Boxes, size: tuple[int, int]) -> tuple[Boxes, np.ndarray | None]:
    """Return the result with STRIDES and ANCHORS, and its priors in the unit of the form, if the form has priors."""
    form, (height, width) = BOX_FORMS[asked.form], size
    if form.priors == "none":
        return asked, None
    priors = [
        (column * stride + stride / 2, row * stride + stride / 2, *anchors[at : at + 2])
        for stride, anchors in zip(STRIDES, ANCHORS, strict=True)
        for row in range(int(height / stride))
        for column in range(int(width / stride))
        for at in range(0, len(anchors), 2)
    ]
    unit = (width, height, width, height) if form.normalised else (1, 1, 1, 1)
    return replace(asked, strides=STRIDES, anchors=ANCHORS), np.array(priors) / unit


def draw_outputs(name: str, count: int, classes: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Return outputs of a form as a detector of 640 by 480 pixels would make them: crowded boxes, few high scores."""
    form = BOX_FORMS[name]
    boxes = _draw_boxes(form, count, generator)
    scores = generator.beta(0.3, 2, (count, classes + form.spare))
    if form.activation == "softmax":
        scores = np.log(scores + 1e-6)
    if form.activation == "sigmoid":
        scores = np.log(scores + 1e-6) - np.log(1 - scores + 1e-6)
    parts = [boxes]
    if form.objectness:
        parts.append(generator.beta(0.5, 1, (count, 1)))
    if form.ready:
        best, kinds = scores.max(axis=1, keepdims=True), generator.integers(0, classes, (count, 1))
        if form.split:
            return [best.T.astype(np.float32), boxes.astype(np.float32)[None], kinds.T.astype(np.float32)]
        ready = np.zeros((count, form.own))
        for place, part in zip(form.places, (boxes, best, kinds), strict=True):
            ready[:, place : place + part.shape[1]] = part
        parts = [ready]
    elif not form.split:
        parts.append(scores)
    rows = np.concatenate(parts, axis=1).astype(np.float32)[None]
    if form.split:
        return [scores.astype(np.float32)[None], rows]
    return [np.ascontiguousarray(rows.transpose(0, 2, 1))] if form.layout == "columns" else [rows]


def _move_priors(form: BoxForm, boxes: np.ndarray, priors: np.ndarray, variances: Sequence[float]) -> np.ndarray:
    x, y, across, down = boxes[:, [1, 0, 3, 2]].T if form.swapped else boxes[:, :4].T
    if form.priors == "offset":
        return np.stack([priors[:, 0] + x, priors[:, 1] + y, across, down], axis=1)
    return np.stack(
        [
            priors[:, 0] + variances[0] * x * priors[:, 2],
            priors[:, 1] + variances[0] * y * priors[:, 3],
            np.exp(variances[1] * across) * priors[:, 2],
            np.exp(variances[1] * down) * priors[:, 3],
        ],
        axis=1,
    )


def _take_ready(form: BoxForm, outputs: Outputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return boxes, scores and classes of a form that needs no decoding."""
    if form.split:
        return outputs[1], outputs[0], outputs[2].astype(int)
    rows, (box, score, kind) = outputs[0], form.places
    return rows[:, box : box + 4], rows[:, score], rows[:, kind].astype(int)


def decode(
    form: BoxForm,
    outputs: Outputs,
    size: tuple[int, int],
    priors: np.ndarray | None = None,
    variances: Sequence[float] = VARIANCES,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return boxes (left, top, right, bottom), scores and classes of all candidates, in float64.

    ``priors`` [count, 4] are centre x, centre y, width and height in the unit of the form.
    """
    height, width = size
    if form.ready:
        return _take_ready(form, [each[0].astype(np.float64) for each in outputs])
    rows = outputs[0][0].astype(np.float64)
    rows = rows.T if form.layout == "columns" else rows
    boxes = outputs[1][0].astype(np.float64) if form.split else rows[:, :4]
    if form.strides:
        cells = []
        for stride in form.strides:
            for y in range(height // stride):
                cells += [(x, y, stride) for x in range(width // stride)]
        grid = np.array(cells, float)
        centres = (boxes[:, :2] + grid[:, :2]) * grid[:, 2:]
        boxes = np.concatenate([centres, np.exp(boxes[:, 2:]) * grid[:, 2:]], axis=1)
    if priors is not None:
        boxes = _move_priors(form, boxes, priors, variances)
    if form.normalised:
        boxes = boxes * (width, height, width, height)
    if not form.corners:
        boxes = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)
    scores = rows if form.split else rows[:, 4 + form.objectness :]
    if form.activation == "sigmoid":
        scores = 1 / (1 + np.exp(-scores))
    if form.activation == "softmax":
        scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    scores = {"none": scores, "first": scores[:, 1:], "last": scores[:, :-1]}[form.background]
    best = scores.argmax(axis=1)
    values = scores.max(axis=1) * (rows[:, 4] if form.objectness else 1)
    return boxes, values, best


def select(asked: Boxes, candidates: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Found:
    """Return the results among candidates by greedy non-maximum suppression, written as the textbook has it."""
    boxes, scores, classes = candidates
    waiting = [i for i in np.argsort(-scores, kind="stable") if scores[i] > asked.score]
    kept: list[int] = []
    while waiting and len(kept) < asked.most:
        best, *waiting = waiting
        kept.append(best)
        form = BOX_FORMS.get(asked.form) or GRID_FORMS[asked.form]
        if form.suppress:
            waiting = [
                each
                for each in waiting
                if not (
                    (asked.agnostic or classes[each] == classes[best])
                    and _share(boxes[each], boxes[best]) > asked.overlap
                )
            ]
    return [(float(scores[i]), int(classes[i]), tuple(boxes[i].tolist())) for i in kept]


def _share(one: np.ndarray, other: np.ndarray) -> float:
    sides = np.maximum(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0)
    shared = float(sides.prod())
    return shared / max(float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2])) - shared, 1e-9)
