"""Parts of modern networks as PyTorch's exporters write them, with drawn sizes and spellings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drawn_model import DrawnModel
from onnx import TensorProto


def _linear(drawn: DrawnModel, x: str, width: int, out: int) -> str:
    """Add a dense layer over the last axis, as a product with a bias."""
    product = drawn.add("MatMul", x, drawn.weight(width, out))
    return drawn.add("Add", *drawn.pick((product, drawn.weight(out)), (drawn.weight(out), product)))


def _sample(drawn: DrawnModel, picture: str, grid: str) -> str:
    """Sample a picture at a grid, bilinearly."""
    mode = "bilinear" if drawn.opset < 20 else "linear"
    align, padding = drawn.pick(0, 0, 1), drawn.pick("zeros", "zeros", "border", "reflection")
    return drawn.add("GridSample", picture, grid, mode=mode, align_corners=align, padding_mode=padding)


def _softmax(drawn: DrawnModel, x: str) -> str:
    """Add a softmax over the last axis, as one operator or written out."""
    if drawn.pick(True, True, False):
        return drawn.add("Softmax", x, axis=-1)
    axes = drawn.constant([-1], "int64")
    largest = drawn.add("ReduceMax", x, axes) if drawn.opset >= 18 else drawn.add("ReduceMax", x, axes=[-1])
    powers = drawn.add("Exp", drawn.add("Sub", x, largest))
    return drawn.add("Div", powers, drawn.add("ReduceSum", powers, axes))


def draw_deformable_attention(drawn: DrawnModel) -> None:
    """Draw RT-DETR's multi-scale deformable attention over one to three levels."""
    heads, size, queries, points = drawn.pick(1, 2, 4), drawn.pick(4, 8, 20), drawn.pick(1, 7, 30), drawn.pick(1, 2, 4)
    levels = [(drawn.pick(1, 3, 8), drawn.pick(2, 5, 8)) for _ in range(drawn.pick(1, 2, 3))]
    width, tokens, count = heads * size, sum(h * w for h, w in levels), len(levels)
    value = drawn.reshape(_linear(drawn, drawn.feed(1, tokens, width), width, width), 1, tokens, heads, size)
    query = drawn.feed(1, queries, width)
    wide = heads * count * points
    offsets = drawn.reshape(_linear(drawn, query, width, wide * 2), 1, queries, heads, count, points, 2)
    scores = drawn.reshape(_linear(drawn, query, width, wide), 1, queries, heads, count * points)
    weights = drawn.reshape(_softmax(drawn, scores), 1, queries, heads, count, points)
    if drawn.pick(True, False):  # boxes: offsets are shares of width and height
        boxes = drawn.feed(1, queries, 1, 4, low=0, high=1)
        spread = drawn.reshape(drawn.slice(boxes, -1, 2, 4), 1, queries, 1, 1, 1, 2)
        middle = drawn.reshape(drawn.slice(boxes, -1, 0, 2), 1, queries, 1, 1, 1, 2)
        shares = drawn.add("Mul", drawn.add("Mul", offsets, drawn.constant(0.5 / points)), spread)
        places = drawn.add("Add", middle, shares)
    else:
        middle = drawn.reshape(drawn.feed(1, queries, 2, low=0, high=1), 1, queries, 1, 1, 1, 2)
        sizes = drawn.constant(np.array([[w, h] for h, w in levels], float).reshape(1, 1, 1, count, 1, 2))
        places = drawn.add("Add", middle, drawn.add("Div", offsets, sizes))
    grids = drawn.add("Sub", drawn.add("Mul", places, drawn.constant(2.0)), drawn.constant(1.0))
    lengths = drawn.constant([h * w for h, w in levels], "int64")
    parts = drawn.add_many("Split", count, value, lengths, axis=1) if count > 1 else [value]
    sampled = []
    for level, ((height, breadth), part) in enumerate(zip(levels, parts, strict=True)):
        flat = drawn.transpose(part, 0, 2, 3, 1)
        picture = drawn.reshape(flat, heads, size, height, breadth)
        place = drawn.add("Gather", grids, drawn.constant(level, "int64"), axis=3)
        grid = drawn.reshape(drawn.transpose(place, 0, 2, 1, 3, 4), heads, queries, points, 2)
        sampled.append(_sample(drawn, picture, grid))
    if drawn.pick(True, False):
        stacked = drawn.add("Concat", *sampled, axis=-1)
    else:
        apart = [drawn.add("Unsqueeze", each, drawn.constant([-2], "int64")) for each in sampled]
        stacked = drawn.reshape(drawn.add("Concat", *apart, axis=-2), heads, size, queries, count * points)
    turned = drawn.reshape(drawn.transpose(weights, 0, 2, 1, 3, 4), heads, 1, queries, count * points)
    weighed = drawn.add("Mul", stacked, turned)
    summed = drawn.add("ReduceSum", weighed, drawn.constant([-1], "int64"), keepdims=0)
    out = drawn.transpose(drawn.reshape(summed, 1, width, queries), 0, 2, 1)
    drawn.outputs = [_linear(drawn, out, width, width)]


def _roll(drawn: DrawnModel, x: str, axis: int, by: int, length: int) -> str:
    """Roll an axis back by ``by``, as exporters of torch.roll write it."""
    return drawn.add("Concat", drawn.slice(x, axis, by, length), drawn.slice(x, axis, 0, by), axis=axis)


def draw_shifted_windows(drawn: DrawnModel) -> None:
    """Draw Swin's attention in windows, shifted or not, with relative biases and a mask; opset 17's or 20's."""
    window, heads, size = drawn.pick(2, 4, 7), drawn.pick(1, 3), drawn.pick(4, 8, 16)
    rows, columns = drawn.pick(1, 2, 3), drawn.pick(1, 2)
    height, breadth, width, area = rows * window, columns * window, heads * size, window * window
    x = drawn.feed(1, height * breadth, width)
    shift = drawn.pick(0, window // 2)
    picture = drawn.reshape(x, 1, height, breadth, width)
    lost = drawn.pick(0, 0, 1) if min(height, breadth) > window else 0
    if lost:  # a picture that is not a multiple of the window is padded, and cut at the end
        picture = drawn.slice(picture, 1, 0, height - lost)
        picture = drawn.add("Pad", picture, drawn.constant([0, 0, 0, 0, 0, lost, 0, 0], "int64"))
    if shift:
        picture = _roll(drawn, _roll(drawn, picture, 1, shift, height), 2, shift, breadth)
    apart = drawn.reshape(picture, 1, rows, window, columns, window, width)
    windows = drawn.reshape(drawn.transpose(apart, 0, 1, 3, 2, 4, 5), rows * columns, area, width)
    joined = drawn.reshape(_linear(drawn, windows, width, 3 * width), rows * columns, area, 3, heads, size)
    turned = drawn.transpose(joined, 2, 0, 3, 1, 4)
    query, key, value = (drawn.add("Gather", turned, drawn.constant(each, "int64"), axis=0) for each in range(3))
    query = drawn.add("Mul", query, drawn.constant(size**-0.5))
    scores = drawn.add("MatMul", query, drawn.transpose(key, 0, 1, 3, 2))
    table = drawn.constant(drawn.random.uniform(-1, 1, ((2 * window - 1) ** 2, heads)))
    numbers = drawn.constant(drawn.random.integers(0, (2 * window - 1) ** 2, area * area), "int64")
    bias = drawn.transpose(drawn.reshape(drawn.add("Gather", table, numbers, axis=0), area, area, heads), 2, 0, 1)
    scores = drawn.add("Add", scores, drawn.add("Unsqueeze", bias, drawn.constant([0], "int64")))
    if shift:
        hidden = drawn.random.uniform(size=(rows * columns, area, area)) < 0.3
        hidden &= ~np.eye(area, dtype=bool)
        mask = drawn.constant(np.where(hidden, -100.0, 0.0)[None, :, None])
        scores = drawn.add("Add", drawn.reshape(scores, 1, rows * columns, heads, area, area), mask)
        scores = drawn.reshape(scores, rows * columns, heads, area, area)
    mixed = drawn.add("MatMul", _softmax(drawn, scores), value)
    merged = drawn.reshape(drawn.transpose(mixed, 0, 2, 1, 3), rows * columns, area, width)
    merged = _linear(drawn, merged, width, width)
    apart = drawn.reshape(merged, 1, rows, columns, window, window, width)
    picture = drawn.reshape(drawn.transpose(apart, 0, 1, 3, 2, 4, 5), 1, height, breadth, width)
    if shift:
        picture = _roll(drawn, _roll(drawn, picture, 1, height - shift, height), 2, breadth - shift, breadth)
    if lost:
        picture = drawn.slice(picture, 1, 0, height - lost)
    drawn.outputs = [picture] if lost else [drawn.add("Add", x, drawn.reshape(picture, 1, height * breadth, width))]


def _turn(drawn: DrawnModel, x: str, shape: tuple[int, ...], tables: tuple[str, str], way: str) -> str:
    """Turn heads [batch, heads, tokens, size] by RoPE."""
    size = shape[-1]
    if way == "halves":
        first, second = drawn.slice(x, 3, 0, size // 2), drawn.slice(x, 3, size // 2, 2**62)
        other = drawn.add("Concat", drawn.add("Neg", second), first, axis=-1)
    elif way == "split":
        first, second = drawn.add_many("Split", 2, x, drawn.constant([size // 2] * 2, "int64"), axis=3)
        other = drawn.add("Concat", drawn.add("Neg", second), first, axis=-1)
    else:  # pairs of neighbours
        pairs = drawn.reshape(x, *shape[:-1], size // 2, 2)
        first, second = (drawn.add("Gather", pairs, drawn.constant(each, "int64"), axis=-1) for each in range(2))
        turned = (drawn.add("Neg", second), first)
        apart = [drawn.add("Unsqueeze", each, drawn.constant([-1], "int64")) for each in turned]
        other = drawn.reshape(drawn.add("Concat", *apart, axis=-1), *shape)
    return drawn.add("Add", drawn.add("Mul", x, tables[0]), drawn.add("Mul", other, tables[1]))


def draw_rotary_attention(drawn: DrawnModel) -> None:
    """Draw attention with RoPE and grouped queries; the angles are constants or computed from positions."""
    kept, groups, size = drawn.pick(1, 2), drawn.pick(1, 1, 2, 3), drawn.pick(4, 8, 32)
    batch, tokens = drawn.pick(1, 1, 2), drawn.pick(1, 5, 16, 33)
    heads, way = kept * groups, drawn.pick("halves", "split", "pairs")
    width = heads * size
    x = drawn.feed(batch, tokens, width)
    frequencies = 10000.0 ** -(np.arange(0, size, 2) / size)
    spread = np.concatenate([frequencies] * 2) if way != "pairs" else np.repeat(frequencies, 2)
    if drawn.pick(True, False):
        angles = np.arange(tokens)[:, None] * spread
        cosines, sines = drawn.constant(np.cos(angles)[None, None]), drawn.constant(np.sin(angles)[None, None])
    else:
        positions = drawn.given(drawn.random.integers(0, 50, (batch, tokens)).astype(np.int64))
        floats = drawn.reshape(drawn.add("Cast", positions, to=TensorProto.FLOAT), batch, 1, tokens, 1)
        angles = drawn.add("MatMul", floats, drawn.constant(spread[None]))
        cosines, sines = drawn.add("Cos", angles), drawn.add("Sin", angles)
    rows = []
    for count in (heads, kept, kept):
        projected = drawn.reshape(_linear(drawn, x, width, count * size), batch, tokens, count, size)
        rows.append(drawn.transpose(projected, 0, 2, 1, 3))
    query = _turn(drawn, rows[0], (batch, heads, tokens, size), (cosines, sines), way)
    key = _turn(drawn, rows[1], (batch, kept, tokens, size), (cosines, sines), way)
    value = rows[2]
    if groups > 1:
        wide = drawn.constant([batch, kept, groups, tokens, size], "int64")
        axis = drawn.constant([2], "int64")
        key, value = (
            drawn.reshape(drawn.add("Expand", drawn.add("Unsqueeze", each, axis), wide), batch, heads, tokens, size)
            for each in (key, value)
        )
    scores = drawn.add("MatMul", query, drawn.transpose(key, 0, 1, 3, 2))
    scores = drawn.add("Mul", scores, drawn.constant(size**-0.5))
    if drawn.pick(True, False):
        hidden = np.where(np.tri(tokens, dtype=bool), 0, np.finfo(np.float32).min)
        scores = drawn.add("Add", scores, drawn.constant(hidden[None, None]))
    mixed = drawn.transpose(drawn.add("MatMul", _softmax(drawn, scores), value), 0, 2, 1, 3)
    drawn.outputs = [_linear(drawn, drawn.reshape(mixed, batch, tokens, width), width, width)]


def draw_correlation_pyramid(drawn: DrawnModel) -> None:
    """Draw RAFT's cost volume, its pyramid of averages, and the samples around each place."""
    channels, height, width = drawn.pick(4, 16, 32), drawn.pick(4, 6, 8), drawn.pick(4, 5, 9)
    radius, levels, pixels = drawn.pick(1, 2), drawn.pick(1, 2), height * width
    first, second = (drawn.reshape(drawn.feed(1, channels, height, width), 1, channels, pixels) for _ in range(2))
    volume = drawn.add("MatMul", drawn.transpose(first, 0, 2, 1), second)
    volume = drawn.add("Div", drawn.reshape(volume, pixels, 1, height, width), drawn.constant(channels**0.5))
    flow = drawn.feed(1, 2, height, width)
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    places = drawn.add("Add", drawn.constant(np.stack([columns, rows])[None]), flow)
    middle = drawn.reshape(drawn.transpose(places, 0, 2, 3, 1), pixels, 1, 1, 2)
    steps = np.arange(-radius, radius + 1)
    around = np.stack(np.meshgrid(steps, steps, indexing="ij"), -1)[None]
    found, side = [], 2 * radius + 1
    for level in range(levels):
        h, w = height >> level, width >> level
        centre = drawn.add("Div", middle, drawn.constant(float(2**level)))
        at = drawn.add("Add", centre, drawn.constant(around))
        x, y = drawn.add_many("Split", 2, at, drawn.constant([1, 1], "int64"), axis=-1)
        scaled = []
        for each, length in ((x, w), (y, h)):
            twice = drawn.add("Mul", each, drawn.constant(2.0))
            scaled.append(
                drawn.add("Sub", drawn.add("Div", twice, drawn.constant(float(length - 1))), drawn.constant(1))
            )
        mode = "bilinear" if drawn.opset < 20 else "linear"
        grid = drawn.add("Concat", *scaled, axis=-1)
        sampled = drawn.add("GridSample", volume, grid, mode=mode, align_corners=1, padding_mode="zeros")
        found.append(drawn.reshape(sampled, 1, height, width, side * side))
        if level + 1 < levels:
            volume = drawn.add("AveragePool", volume, kernel_shape=[2, 2], strides=[2, 2])
    joined = drawn.add("Concat", *found, axis=-1) if len(found) > 1 else found[0]
    drawn.outputs = [drawn.transpose(joined, 0, 3, 1, 2)]


def draw_pillars(drawn: DrawnModel) -> None:
    """Draw PointPillars' network of a pillar, the maximum over its points, and the scatter to a canvas."""
    pillars, points, features = drawn.pick(1, 5, 40), drawn.pick(1, 8, 20), drawn.pick(4, 9)
    channels, height, width = drawn.pick(3, 8, 32), drawn.pick(7, 8), drawn.pick(8, 12)
    x = drawn.feed(pillars, points, features)
    counts = drawn.given(drawn.random.integers(1, points + 1, pillars).astype(np.int64))
    numbers = drawn.constant(np.arange(points)[None], "int64")
    real = drawn.add("Less", numbers, drawn.reshape(counts, pillars, 1))
    mask = drawn.reshape(drawn.add("Cast", real, to=TensorProto.FLOAT), pillars, points, 1)
    masked = drawn.add("Mul", x, mask)
    made = drawn.add("Relu", drawn.add("MatMul", masked, drawn.weight(features, channels)))
    axes = drawn.constant([1], "int64")
    if drawn.opset >= 18:
        largest = drawn.add("ReduceMax", made, axes, keepdims=0)
    else:
        largest = drawn.add("ReduceMax", made, axes=[1], keepdims=0)
    cells = drawn.random.permutation(height * width)[:pillars].astype(np.int64)
    if drawn.pick(True, False):  # a flat canvas, channels last
        canvas = drawn.constant(np.zeros((height * width, channels)))
        filled = drawn.add("ScatterND", canvas, drawn.given(cells[:, None]), largest)
        drawn.outputs = [drawn.transpose(drawn.reshape(filled, 1, height, width, channels), 0, 3, 1, 2)]
        return
    canvas = drawn.constant(np.zeros((channels, height * width)))
    across = drawn.add("Expand", drawn.reshape(drawn.given(cells), 1, pillars), drawn.constant([channels, 1], "int64"))
    filled = drawn.add("ScatterElements", canvas, across, drawn.transpose(largest, 1, 0), axis=1)
    picture = drawn.reshape(filled, 1, channels, height, width)
    kernel = drawn.constant(drawn.random.uniform(-0.2, 0.2, (4, channels, 3, 3)))
    drawn.outputs = [drawn.add("Conv", picture, kernel, pads=[1] * 4)]


def draw_soft_arg_max(drawn: DrawnModel) -> None:
    """Draw the expected place of a peak: DFL's over bins, or a keypoint's over a map."""
    if drawn.pick(True, False):
        bins, boxes = drawn.pick(8, 16, 17), drawn.pick(1, 21, 84)
        x = drawn.reshape(drawn.feed(1, 4 * bins, boxes), 1, 4, bins, boxes)
        if drawn.pick(True, False):  # ultralytics: bins become channels of a convolution
            weights = drawn.add("Softmax", drawn.transpose(x, 0, 2, 1, 3), axis=1)
            kernel = drawn.constant(np.arange(bins).reshape(1, bins, 1, 1))
            drawn.outputs = [drawn.reshape(drawn.add("Conv", weights, kernel), 1, 4, boxes)]
            return
        weights = _softmax(drawn, drawn.transpose(x, 0, 3, 1, 2))
        drawn.outputs = [drawn.add("MatMul", weights, drawn.constant(np.arange(bins)))]
        return
    points, height, width = drawn.pick(1, 17), drawn.pick(4, 12), drawn.pick(5, 16)
    maps = _softmax(drawn, drawn.reshape(drawn.feed(1, points, height, width), 1, points, height * width))
    maps = drawn.reshape(maps, 1, points, height, width)
    found = []
    for axis, length in ((2, width), (3, height)):
        line = drawn.add("ReduceSum", maps, drawn.constant([axis], "int64"), keepdims=0)
        weighed = drawn.add("Mul", line, drawn.constant(np.linspace(0, 1, length)))
        found.append(drawn.add("ReduceSum", weighed, drawn.constant([2], "int64")))
    drawn.outputs = [drawn.add("Concat", *found, axis=-1)]


def draw_two_stages(drawn: DrawnModel) -> None:
    """Draw DETR's choice of the best tokens: TopK of the largest score, then their boxes and features."""
    tokens, width, classes, count = drawn.pick(9, 50, 200), drawn.pick(4, 16), drawn.pick(1, 2, 80), drawn.pick(1, 5, 9)
    x = drawn.feed(1, tokens, width)
    scores = _linear(drawn, x, width, classes)
    axes = drawn.constant([-1], "int64")
    if drawn.opset >= 18:
        best = drawn.add("ReduceMax", scores, axes, keepdims=0)
    else:
        best = drawn.add("ReduceMax", scores, axes=[-1], keepdims=0)
    values, places = drawn.add_many("TopK", 2, best, drawn.constant([count], "int64"), axis=1)
    across = drawn.add("Unsqueeze", places, axes)
    boxes = drawn.add("Sigmoid", _linear(drawn, x, width, 4))
    taken = []
    for source, length in ((boxes, 4), (x, width)):
        spread = drawn.add("Tile", across, drawn.constant([1, 1, length], "int64"))
        taken.append(drawn.add("GatherElements", source, spread, axis=1))
    logits = [drawn.add("Log", drawn.add("Clip", taken[0], drawn.constant(1e-5), drawn.constant(1 - 1e-5)))]
    logits.append(drawn.add("Log", drawn.add("Sub", drawn.constant(1.0), taken[0])))
    drawn.outputs = [values, drawn.add("Sub", *logits), taken[1]]


def draw_linear_attention(drawn: DrawnModel) -> None:
    """Draw EfficientViT's attention without a softmax, over joined groups of channels that are split into heads."""
    heads, size, side = drawn.pick(1, 2, 4), drawn.pick(8, 16), drawn.pick(4, 7, 14)
    width, area = heads * size, side * side
    x = drawn.feed(1, width, side, side)
    joined = drawn.add("Conv", x, drawn.weight(3 * width, width, 1, 1))
    near = drawn.add("Conv", joined, drawn.weight(3 * width, 1, 5, 5), group=3 * width, pads=[2, 2, 2, 2])
    near = drawn.add("Conv", near, drawn.weight(3 * width, size, 1, 1), group=3 * heads)
    both = drawn.add("Concat", joined, near, axis=1)
    apart = drawn.transpose(drawn.reshape(both, 1, 2 * heads, 3 * size, area), 0, 1, 3, 2)
    query, key, value = (drawn.slice(apart, 3, part * size, (part + 1) * size) for part in range(3))
    query, key = drawn.add("Relu", query), drawn.add("Relu", key)
    value = drawn.add("Pad", value, drawn.constant([0, 0, 0, 0, 0, 0, 0, 1], "int64"), drawn.constant(1.0))
    sums = drawn.add("MatMul", query, drawn.add("MatMul", drawn.transpose(key, 0, 1, 3, 2), value))
    scale = drawn.add("Add", drawn.slice(sums, 3, size, size + 1), drawn.constant(1e-3))
    mixed = drawn.add("Div", drawn.slice(sums, 3, 0, size), scale)
    picture = drawn.reshape(drawn.transpose(mixed, 0, 1, 3, 2), 1, 2 * width, side, side)
    drawn.outputs = [drawn.add("Add", x, drawn.add("Conv", picture, drawn.weight(width, 2 * width, 1, 1)))]


FAMILIES: dict[str, Callable[[DrawnModel], None]] = {
    "deformable attention": draw_deformable_attention,
    "shifted windows": draw_shifted_windows,
    "rotary attention": draw_rotary_attention,
    "correlation pyramid": draw_correlation_pyramid,
    "pillars": draw_pillars,
    "linear attention": draw_linear_attention,
    "soft arg max": draw_soft_arg_max,
    "two stages": draw_two_stages,
}


def draw_family(name: str, seed: int) -> DrawnModel:
    """Draw one model of a family, in opset 17 as the older exporter writes or in 18 or 20 as the newer one does."""
    random = np.random.default_rng(seed)
    drawn = DrawnModel(random, opset=int(random.choice([17, 18, 20])))
    FAMILIES[name](drawn)
    return drawn
