"""The ends of detectors, as the exporters of ultralytics and of torchvision write them."""

from __future__ import annotations

import numpy as np
import onnx
from counted_graphs import Arrays, Graph
from detector_nets import make_detector
from onnx import TensorProto, helper, numpy_helper

BOXES, CLASSES, KEPT = 200, 3, 40
_LARGEST = (1 << 63) - 1


def ultralytics() -> onnx.ModelProto:
    """Return `nms=True`: boxes above a threshold, suppressed by class, in room for ``KEPT`` of them."""
    graph = Graph()
    boxes, scores = graph.take("boxes", [BOXES, 4]), graph.take("scores", [BOXES, CLASSES])
    score = graph.add("ReduceMax", scores, axes=[1], keepdims=0)
    label = graph.add("ArgMax", scores, axis=1, keepdims=0)
    found = graph.add("NonZero", graph.add("Greater", score, graph.constant(0.3, np.float32)))
    box, score, label = (
        graph.add("GatherND", each, graph.add("Transpose", found, perm=[1, 0])) for each in (boxes, score, label)
    )
    shape = graph.add("Concat", graph.add("Shape", label), graph.constant([1]), axis=0)
    column = graph.add("Cast", graph.add("Reshape", label, shape), to=TensorProto.FLOAT)
    wide = graph.add("Expand", column, graph.add("Shape", box))
    moved = graph.add("Add", box, graph.add("Mul", wide, graph.constant(1000, np.float32)))
    keep = _suppress(graph, moved, score)
    parts = [graph.add("Gather", each, keep, axis=0) for each in (box, score, label)]
    columns = [graph.add("Reshape", each, graph.constant([-1, 1])) for each in parts[1:]]
    rows = graph.add("Concat", parts[0], columns[0], graph.add("Cast", columns[1], to=TensorProto.FLOAT), axis=1)
    length = graph.add("Gather", graph.add("Shape", rows), graph.constant(0), axis=0)
    left = graph.add("Unsqueeze", graph.add("Sub", graph.constant(KEPT), length), graph.constant([0]))
    pads = graph.add("Concat", graph.constant([0, 0]), left, graph.constant([0]), axis=0)
    padded = graph.add("Reshape", graph.add("Pad", rows, pads), graph.constant([1, KEPT, 6]))
    zeros = graph.constant(np.zeros((1, KEPT, 6)), np.float32)
    return graph.finish({graph.add("ScatterND", zeros, graph.constant([[0]]), padded): TensorProto.FLOAT})


def torchvision() -> onnx.ModelProto:
    """Return SSD's end: the best boxes of each class, joined, and suppressed unless there are none."""
    graph = Graph()
    boxes, scores = graph.take("boxes", [BOXES, 4]), graph.take("scores", [BOXES, CLASSES])
    found: list[list[str]] = [[], [], []]
    for label in range(CLASSES):
        score = graph.add("Gather", scores, graph.constant(label), axis=1)
        flags = graph.add("Greater", score, graph.constant(0.3, np.float32))
        places = graph.add("Transpose", graph.add("NonZero", flags), perm=[1, 0])
        score, box = graph.add("GatherND", score, places), graph.add("GatherND", boxes, places)
        length = graph.add("Gather", graph.add("Shape", score), graph.constant(0), axis=0)
        either = graph.add("Concat", graph.constant([30]), graph.add("Unsqueeze", length, graph.constant([0])), axis=0)
        k = graph.add("Reshape", graph.add("ReduceMin", either, keepdims=0), graph.constant([-1]))
        best, order = graph.add("TopK", score, k, outputs=2, axis=-1)
        filled = helper.make_tensor("", TensorProto.INT64, [1], [label])
        labels = graph.add("ConstantOfShape", graph.add("Shape", best), value=filled)
        for parts, each in zip(found, (graph.add("Gather", box, order, axis=0), best, labels), strict=True):
            parts.append(each)
    box, score, label = (graph.add("Concat", *parts, axis=0) for parts in found)
    count = graph.add("ReduceProd", graph.add("Shape", box), keepdims=0)
    keep = _unless_empty(graph, graph.add("Equal", count, graph.constant(0)), (box, score, label))
    first = graph.add("Slice", keep, *[graph.constant([each]) for each in (0, KEPT, 0, 1)])
    chosen = [graph.add("Gather", each, first, axis=0) for each in (box, score, label)]
    kinds = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64)
    return graph.finish(dict(zip(chosen, kinds, strict=True)))


def yolov7() -> onnx.ModelProto:
    """Return the end of YOLOv7's `--end2end`: a row [batch, box, class, score] for each box that is left."""
    graph = Graph()
    boxes, scores = graph.take("boxes", [BOXES, 4]), graph.take("scores", [BOXES, CLASSES])
    batch = graph.add("Unsqueeze", boxes, graph.constant([0]))
    by_class = graph.add("Unsqueeze", graph.add("Transpose", scores, perm=[1, 0]), graph.constant([0]))
    limits = (graph.constant([20]), graph.constant([0.5], np.float32), graph.constant([0.3], np.float32))
    found = graph.add("NonMaxSuppression", batch, by_class, *limits)
    number, label, place = (graph.add("Gather", found, graph.constant([each]), axis=1) for each in range(3))
    box = graph.add("Gather", boxes, graph.add("Squeeze", place, graph.constant([1])), axis=0)
    score = graph.add("GatherND", by_class, found)
    columns = [graph.add("Cast", each, to=TensorProto.FLOAT) for each in (number, label)]
    score = graph.add("Unsqueeze", score, graph.constant([1]))
    rows = graph.add("Concat", columns[0], box, columns[1], score, axis=1)
    return graph.finish({rows: TensorProto.FLOAT})


def detect(end: onnx.ModelProto, size: tuple[int, int]) -> onnx.ModelProto:
    """Return a network of pictures of this size whose boxes and scores go to an end. Its outputs are end0, end1 …"""
    model = make_detector([[1, BOXES, 4], [1, BOXES * CLASSES]], size, spread=20)
    graph, shapes = Graph(prefix="join"), {"out0": [BOXES, 4], "out1": [BOXES, CLASSES]}
    box, score = (graph.add("Reshape", name, graph.constant(shape)) for name, shape in shapes.items())
    # Two corners, and few scores above the threshold of the ends.
    first, sides = (graph.add("Slice", box, *map(graph.constant, ([at], [at + 2], [1]))) for at in (0, 2))
    corners = graph.add("Concat", first, graph.add("Add", first, sides), axis=1)
    score = graph.add("Sigmoid", graph.add("Sub", score, graph.constant(4, np.float32)))
    joints = {corners: "boxes", score: "scores"}
    joints |= {value.name: f"end{place}" for place, value in enumerate(end.graph.output)}
    joined = [helper.make_node("Identity", [each], [name]) for each, name in joints.items()]
    del model.graph.output[:]
    model.graph.node.extend([*graph.nodes, *joined[:2], *end.graph.node, *joined[2:]])
    model.graph.initializer.extend([*graph.constants, *end.graph.initializer])
    for place, value in enumerate(end.graph.output):
        kind = value.type.tensor_type.elem_type
        model.graph.output.append(helper.make_tensor_value_info(f"end{place}", kind, None))
    return model


def draw(seed: int, highest: float) -> Arrays:
    """Return boxes and scores up to the highest one; of 0.3 or less, nothing is found."""
    random = np.random.RandomState(seed)
    middles, sizes = random.uniform(0, 100, (BOXES, 2)), random.uniform(10, 40, (BOXES, 2))
    corners = np.concatenate([middles - sizes / 2, middles + sizes / 2], axis=1)
    scores = random.uniform(0, highest, (BOXES, CLASSES))
    return {"boxes": corners.astype(np.float32), "scores": scores.astype(np.float32)}


def _suppress(graph: Graph, boxes: str, scores: str) -> str:
    boxes = graph.add("Unsqueeze", boxes, graph.constant([0]))
    scores = graph.add("Unsqueeze", graph.add("Unsqueeze", scores, graph.constant([0])), graph.constant([0]))
    limits = graph.constant([_LARGEST]), graph.constant([0.5], np.float32)
    found = graph.add("NonMaxSuppression", boxes, scores, *limits)
    column = graph.add("Squeeze", graph.add("Gather", found, graph.constant([2]), axis=1), graph.constant([1]))
    return str(graph.add("Slice", column, *[graph.constant([each]) for each in (0, KEPT, 0, 1)]))


def _unless_empty(graph: Graph, condition: str, found: tuple[str, str, str]) -> str:
    box, score, label = found
    inner = Graph(prefix="inner")
    largest = inner.add("ReduceMax", box, keepdims=0)
    offsets = inner.add("Mul", inner.add("Cast", label, to=TensorProto.FLOAT), largest)
    moved = inner.add("Add", box, inner.add("Unsqueeze", offsets, inner.constant([1])))
    keep = _suppress(inner, moved, score)
    result = helper.make_tensor_value_info(keep, TensorProto.INT64, None)
    other = helper.make_graph(inner.nodes, "else", [], [result], inner.constants)
    nothing = numpy_helper.from_array(np.zeros(0, np.int64))
    empty = helper.make_node("Constant", [], ["empty"], value=nothing)
    then = helper.make_graph([empty], "then", [], [helper.make_tensor_value_info("empty", TensorProto.INT64, None)])
    return str(graph.add("If", condition, then_branch=then, else_branch=other))
