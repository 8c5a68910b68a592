"""Chains of operators after each operator that finds elements or boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from counted_graphs import Arrays, Graph
from onnx import TensorProto, helper, numpy_helper

ROWS, COLUMNS = 12, 4

# Each way takes a graph and a float value [n, COLUMNS] whose rows are counted, and returns such a value.


def _elementwise(graph: Graph, value: str) -> str:
    return str(graph.add("Mul", graph.add("Add", value, graph.constant(1.5, np.float32)), value))


def _sorted(graph: Graph, value: str) -> str:
    column = graph.add("Gather", value, graph.constant(1), axis=1)
    length = graph.add("Gather", graph.add("Shape", value), graph.constant([0]), axis=0)
    k = graph.add("Min", length, graph.constant([5]))
    _, places = graph.add("TopK", column, k, outputs=2, axis=0)
    return str(graph.add("Gather", value, places, axis=0))


def _cut(graph: Graph, value: str) -> str:
    bounds = [graph.constant([each]) for each in (1, 7, 0, 1)]
    return str(graph.add("Slice", value, *bounds))


def _last(graph: Graph, value: str) -> str:
    bounds = [graph.constant([each]) for each in (-3, 1 << 40, 0, 1)]
    return str(graph.add("Slice", value, *bounds))


def _backwards(graph: Graph, value: str) -> str:
    bounds = [graph.constant([each]) for each in (-1, -(1 << 40), 0, -1)]
    return str(graph.add("Slice", value, *bounds))


def _twice(graph: Graph, value: str) -> str:
    """Join the value with itself, the parts with the real rows in front of each."""
    return str(graph.add("Concat", value, graph.add("Neg", value), axis=0))


def _kept(graph: Graph, value: str) -> str:
    column = graph.add("Gather", value, graph.constant(0), axis=1)
    flags = graph.add("Greater", column, graph.constant(0.1, np.float32))
    return str(graph.add("Compress", value, flags, axis=0))


def _found(graph: Graph, value: str) -> str:
    column = graph.add("Gather", value, graph.constant(2), axis=1)
    found = graph.add("NonZero", graph.add("Less", column, graph.constant(0.6, np.float32)))
    return str(graph.add("GatherND", value, graph.add("Transpose", found, perm=[1, 0])))


def _reshaped(graph: Graph, value: str) -> str:
    flat = graph.add("Reshape", value, graph.constant([-1]))
    return str(graph.add("Reshape", flat, graph.constant([-1, COLUMNS])))


def _turned(graph: Graph, value: str) -> str:
    turned = graph.add("Transpose", value, perm=[1, 0])
    flat = graph.add("Reshape", turned, graph.constant([-1]))
    return str(graph.add("Reshape", flat, graph.constant([-1, COLUMNS])))


def _centred(graph: Graph, value: str) -> str:
    total = graph.add("ReduceSum", value, graph.constant([0]), keepdims=1)
    return str(graph.add("Sub", value, total))


def _multiplied(graph: Graph, value: str) -> str:
    weights = graph.constant(np.linspace(-1, 1, COLUMNS * COLUMNS).reshape(COLUMNS, COLUMNS), np.float32)
    return str(graph.add("MatMul", value, weights))


def _expanded(graph: Graph, value: str) -> str:
    column = graph.add("Slice", value, *[graph.constant([each]) for each in (0, 1, 1)])
    shape = graph.add("Shape", value)
    return str(graph.add("Expand", column, shape))


def _filled(graph: Graph, value: str) -> str:
    ones = graph.add("ConstantOfShape", graph.add("Shape", value), value=helper.make_tensor("", 1, [1], [2.0]))
    return str(graph.add("Div", value, ones))


def _numbered(graph: Graph, value: str) -> str:
    length = graph.add("Gather", graph.add("Shape", value), graph.constant(0), axis=0)
    numbers = graph.add("Range", graph.constant(0), length, graph.constant(1))
    floats = graph.add("Cast", numbers, to=TensorProto.FLOAT)
    return str(graph.add("Add", value, graph.add("Unsqueeze", floats, graph.constant([1]))))


def _written(graph: Graph, value: str) -> str:
    summed = graph.add("CumSum", value, graph.constant(0), reverse=1)
    return str(graph.add("Softmax", summed, axis=0))


def _parts(graph: Graph, value: str) -> str:
    first, second = graph.add("Split", value, graph.constant([1, 3]), outputs=2, axis=1)
    return str(graph.add("Concat", second, first, axis=1))


def _chosen(graph: Graph, value: str) -> str:
    size = graph.add("Size", value)
    condition = graph.add("Equal", size, graph.constant(0))
    empty = numpy_helper.from_array(np.zeros((0, COLUMNS), np.float32), "e")
    name = f"b{len(graph.nodes)}"
    kinds = (TensorProto.FLOAT, None)
    then = helper.make_graph(
        [helper.make_node("Constant", [], [f"{name}_e"], value=empty)],
        "then", [], [helper.make_tensor_value_info(f"{name}_e", *kinds)],
    )  # fmt: skip
    other = helper.make_graph(
        [
            helper.make_node("ReduceMax", [value], [f"{name}_m"], keepdims=0),
            helper.make_node("Sub", [value, f"{name}_m"], [f"{name}_s"]),
        ],
        "other", [], [helper.make_tensor_value_info(f"{name}_s", *kinds)],
    )  # fmt: skip
    return str(graph.add("If", condition, then_branch=then, else_branch=other))


def _scattered(graph: Graph, value: str) -> str:
    length = graph.add("Gather", graph.add("Shape", value), graph.constant(0), axis=0)
    numbers = graph.add("Range", graph.constant(0), length, graph.constant(1))
    places = graph.add("Unsqueeze", graph.add("Mod", numbers, graph.constant(5)), graph.constant([1]))
    data = graph.constant(np.ones((5, COLUMNS)), np.float32)
    return str(graph.add("ScatterND", data, places, value, reduction="add"))


def _into_elements(graph: Graph, value: str) -> str:
    _, places = graph.add("TopK", value, graph.constant([2]), outputs=2, axis=1)
    flipped = graph.add("GatherElements", value, places, axis=1)
    return str(graph.add("ScatterElements", value, places, flipped, axis=1, reduction="add"))


def _averaged(graph: Graph, value: str) -> str:
    mean = graph.add(
        "ReduceMean", graph.add("Concat", value, graph.constant(np.ones((1, COLUMNS)), np.float32), axis=0), axes=[0]
    )
    least = graph.add("ReduceMin", value, axes=[1], keepdims=1)
    return str(graph.add("Add", graph.add("Mul", value, mean), least))


def _lengthened(graph: Graph, value: str) -> str:
    length = graph.add("Gather", graph.add("Shape", value), graph.constant([0]), axis=0)
    more = graph.add("Sub", graph.constant([40]), graph.add("Min", length, graph.constant([40])))
    pads = graph.add("Concat", graph.constant([1, 0]), more, graph.constant([0]), axis=0)
    cut = graph.add("Slice", value, *[graph.constant([each]) for each in (0, 40, 0)])
    return str(graph.add("Pad", cut, pads, graph.constant(0.25, np.float32)))


def _tiled(graph: Graph, value: str) -> str:
    tiled = graph.add("Tile", value, graph.constant([1, 2]))
    return str(graph.add("Gemm", tiled, graph.constant(np.linspace(0, 1, 8 * COLUMNS).reshape(8, COLUMNS), np.float32)))


def _best(graph: Graph, value: str) -> str:
    padded = graph.add("Concat", graph.constant(np.full((1, COLUMNS), -9), np.float32), value, axis=0)
    places = graph.add("ArgMax", padded, axis=0, keepdims=1)
    return str(graph.add("Add", value, graph.add("Cast", places, to=TensorProto.FLOAT)))


def _scored(graph: Graph, value: str) -> str:
    products = graph.add("MatMul", value, graph.add("Transpose", value, perm=[1, 0]))
    return str(graph.add("MatMul", graph.add("Tanh", products), value))


def _different(graph: Graph, value: str) -> str:
    flat = graph.add("Flatten", graph.add("Unsqueeze", value, graph.constant([1])), axis=1)
    return str(graph.add("Where", graph.add("Greater", flat, graph.constant(0.5, np.float32)), flat, value))


def _aligned(graph: Graph, value: str) -> str:
    picture = graph.constant(np.linspace(0, 1, 128).reshape(1, 2, 8, 8), np.float32)
    length = graph.add("Slice", graph.add("Shape", value), *[graph.constant([each]) for each in (0, 1)])
    samples = graph.add("ConstantOfShape", length, value=helper.make_tensor("", TensorProto.INT64, [1], [0]))
    corners = graph.add("Mul", graph.add("Abs", value), graph.constant([1, 1, 3, 3], np.float32))
    found = graph.add("RoiAlign", picture, corners, samples, output_height=1, output_width=2, sampling_ratio=2)
    return str(graph.add("Reshape", found, graph.constant([-1, COLUMNS])))


def _convolved(graph: Graph, value: str) -> str:
    pictures = graph.add("Reshape", value, graph.constant([-1, 1, 2, 2]))
    weights = graph.constant(np.linspace(-1, 1, 9).reshape(1, 1, 3, 3), np.float32)
    made = graph.add("Conv", pictures, weights, pads=[1, 1, 1, 1])
    return str(graph.add("Flatten", graph.add("MaxPool", made, kernel_shape=[1, 1])))


WAYS: Mapping[str, Callable[[Graph, str], str]] = {
    "aligned": _aligned,
    "averaged": _averaged,
    "best": _best,
    "convolved": _convolved,
    "different": _different,
    "into elements": _into_elements,
    "lengthened": _lengthened,
    "scattered": _scattered,
    "scored": _scored,
    "tiled": _tiled,
    "elementwise": _elementwise,
    "sorted": _sorted,
    "cut": _cut,
    "last": _last,
    "backwards": _backwards,
    "twice": _twice,
    "kept": _kept,
    "found": _found,
    "reshaped": _reshaped,
    "turned": _turned,
    "centred": _centred,
    "multiplied": _multiplied,
    "expanded": _expanded,
    "filled": _filled,
    "numbered": _numbered,
    "written": _written,
    "parts": _parts,
    "chosen": _chosen,
}


def _by_mask(graph: Graph, data: str) -> str:
    column = graph.add("Gather", data, graph.constant(3), axis=1)
    found = graph.add("NonZero", graph.add("Greater", column, graph.constant(0.5, np.float32)))
    return str(graph.add("Gather", data, graph.add("Squeeze", found, graph.constant([0])), axis=0))


def _by_condition(graph: Graph, data: str) -> str:
    column = graph.add("Gather", data, graph.constant(3), axis=1)
    return str(graph.add("Compress", data, graph.add("Greater", column, graph.constant(0.5, np.float32)), axis=0))


def _by_boxes(graph: Graph, data: str) -> str:
    boxes = graph.add("Unsqueeze", data, graph.constant([0]))
    column = graph.add("Gather", data, graph.constant(3), axis=1)
    scores = graph.add("Unsqueeze", column, graph.constant([0, 1]))
    limits = [graph.constant([8]), graph.constant([0.4], np.float32), graph.constant([0.5], np.float32)]
    found = graph.add("NonMaxSuppression", boxes, scores, *limits)
    return str(graph.add("Gather", data, graph.add("Gather", found, graph.constant(2), axis=1), axis=0))


PRODUCERS: Mapping[str, Callable[[Graph, str], str]] = {
    "mask": _by_mask,
    "condition": _by_condition,
    "boxes": _by_boxes,
}


def chain(producer: str, ways: list[str]) -> onnx.ModelProto:
    """Return the model of ways after a producer, with the last value and its sum as outputs."""
    graph = Graph()
    value = PRODUCERS[producer](graph, graph.take("data", [ROWS, COLUMNS]))
    for way in ways:
        value = WAYS[way](graph, value)
    total = graph.add("ReduceSum", value, keepdims=0)
    return graph.finish({value: TensorProto.FLOAT, total: TensorProto.FLOAT})


def feeds(seed: int) -> list[Arrays]:
    """Return inputs in which none, some, one or all rows are found."""
    random = np.random.RandomState(seed)
    made: list[Arrays] = []
    for found in (0, 5, 1, ROWS):
        data = random.uniform(0, 1, (ROWS, COLUMNS)).astype(np.float32)
        data[:, 3] = random.permutation(np.linspace(0.55, 0.95, ROWS))
        data[random.permutation(ROWS)[found:], 3] -= 0.55
        made.append({"data": data})
    return made
