"""Results of drawn outputs: the compiled function of a kind of result, and the same in plain NumPy and float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax

from tvmbuild.base.postprocess_specs import Postprocess, Segmentation
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.canvas import Canvas
from tvmbuild.compiler.kernels.results.select import GEOMETRY
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.table import describe_result
from tvmbuild.package.frames import find_geometry
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.package.preprocess import Fit

Arrays = list[np.ndarray]


def make_canvas(frame: tuple[int, int], fit: Fit, size: tuple[int, int]) -> Canvas:
    """Return the canvas of a frame (height, width) at a place in an input (height, width)."""
    return Canvas(*frame, fit, size)


def compile_result(
    asked: Postprocess, shapes: Sequence[tuple[tuple[int, ...], str]], canvas: Canvas
) -> Callable[..., Arrays]:
    """Return the function of a result for outputs with these shapes and types, for the CPU.

    It takes the outputs and the thresholds, and returns the result's arrays.
    """
    outputs = tuple(TensorInfo(f"out{place}", *each) for place, each in enumerate(shapes))
    interface = Interface("net", (TensorInfo("picture", (1, 3, *canvas.input_size), "float32"),), outputs)
    form = describe_result(interface, EntryOptions(postprocess=asked), asked)
    builder = relax.BlockBuilder()
    given = [relax.Var(each.name, relax.TensorType(each.shape, each.dtype)) for each in outputs]
    thresholds = relax.Var("thresholds", relax.TensorType((2,), "float32"))
    geometry = relax.Var("geometry", relax.TensorType((GEOMETRY,), "float32"))
    with builder.function("main", [*given, thresholds, geometry]):
        request = Request([given[place] for place in form.places], thresholds, geometry, canvas)
        builder.emit_func_output(relax.Tuple(form.write(KernelCalls(builder, on_gpu=False), request)))
    built = relax.build(builder.get(), tvm.target.Target({"kind": "llvm", "num-cores": 2}))
    machine = relax.VirtualMachine(built, tvm.cpu())
    place = find_geometry(canvas.fit, (canvas.width, canvas.height))

    def run(values: Sequence[np.ndarray], limits: Sequence[float]) -> Arrays:
        numbers = np.array(limits, np.float32)
        return [each.numpy() for each in machine["main"](*map(tvm.runtime.tensor, [*values, numbers, place]))]

    return run


def find_places(canvas: Canvas, axis: int) -> np.ndarray:
    """Return the centres of a frame's rows or columns in the input's pixels."""
    size, length = (canvas.height, canvas.width)[axis], (canvas.fit.height, canvas.fit.width)[axis]
    return (np.arange(size) + 0.5) * length / size + (canvas.fit.top, canvas.fit.left)[axis]


def interpolate(canvas: Canvas, maps: np.ndarray, *, nearest: bool = False) -> np.ndarray:
    """Return maps [n, height, width] at the frame's pixels, with NaN outside of the input."""
    found = maps.astype(np.float64)
    for axis in (0, 1):
        places, size = find_places(canvas, axis), maps.shape[axis + 1]
        at = places / canvas.input_size[axis] * size
        if nearest:
            first = np.clip(np.floor(at), 0, size - 1).astype(int)
            taken = np.take(found, first, axis + 1)
        else:
            at = np.clip(at - 0.5, 0, size - 1)
            first = np.floor(at).astype(int)
            shape = (1, -1, 1) if axis == 0 else (1, 1, -1)
            weight = (at - first).reshape(shape)
            taken = np.take(found, first, axis + 1) * (1 - weight)
            taken = taken + np.take(found, np.minimum(first + 1, size - 1), axis + 1) * weight
        outside = (places < 0) | (places >= canvas.input_size[axis])
        np.moveaxis(taken, axis + 1, 0)[outside] = np.nan
        found = taken
    return found


def segment(canvas: Canvas, asked: Segmentation, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the map of classes of scores [classes, height, width], and the lead of the best score at each pixel."""
    found = interpolate(canvas, scores, nearest=asked.interpolation == "nearest")
    outside = np.isnan(found[0])
    if len(found) == 1:
        value = 1 / (1 + np.exp(-found[0])) if asked.activation == "sigmoid" else found[0]
        classes, lead = (value > asked.score).astype(int), np.abs(value - asked.score)
    else:
        classes = found.argmax(axis=0)
        lead = np.sort(found, axis=0)[-1] - np.sort(found, axis=0)[-2]
    return np.where(outside, 255, classes), np.where(outside, np.inf, lead)


def draw_instances(canvas: Canvas, boxes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the map of objects, best first, and the distance of each pixel from a decision.

    ``boxes`` [n, 4] are in the input's pixels, ``values`` [n, height, width] are those of the masks.
    """
    y, x = find_places(canvas, 0)[:, None], find_places(canvas, 1)[None]
    found = np.zeros((canvas.height, canvas.width), int)
    distance = np.full(found.shape, np.inf)
    masks = interpolate(canvas, values) if len(values) else values
    for number, (box, mask) in enumerate(zip(boxes, masks, strict=True), 1):
        inside = (box[0] <= x) & (x < box[2]) & (box[1] <= y) & (y < box[3]) & ~np.isnan(mask)
        edges = [np.abs(box[0] - x), np.abs(box[2] - x), np.abs(box[1] - y), np.abs(box[3] - y)]
        near = np.minimum.reduce([np.broadcast_to(edge, found.shape) for edge in edges])
        distance = np.minimum(distance, np.where(inside, np.minimum(near, np.abs(np.nan_to_num(mask))), near))
        found = np.where((found == 0) & inside & (np.nan_to_num(mask) > 0), number, found)
    return found, distance


def read_text(scores: np.ndarray, blank: int, *, softmax: bool) -> list[tuple[int, float]]:
    """Return symbols and probabilities of the text in scores [steps, symbols]."""
    found, last = [], blank
    for row in scores.astype(np.float64):
        values = np.exp(row - row.max()) / np.exp(row - row.max()).sum() if softmax else row
        symbol = int(row.argmax())
        if symbol not in {blank, last}:
            found.append((symbol, float(values[symbol])))
        last = symbol
    return found


def find_points(canvas: Canvas, maps: np.ndarray) -> np.ndarray:
    """Return x, y and score of the peaks of heatmaps [points, height, width] in the frame's pixels."""
    _, height, width = maps.shape
    found = []
    for each in maps.astype(np.float64):
        y, x = np.unravel_index(each.argmax(), each.shape)
        shift = [0.0, 0.0]
        if 0 < x < width - 1:
            shift[0] = 0.25 * np.sign(each[y, x + 1] - each[y, x - 1])
        if 0 < y < height - 1:
            shift[1] = 0.25 * np.sign(each[y + 1, x] - each[y - 1, x])
        sizes = canvas.input_size
        inside = ((x + shift[0]) * sizes[1] / width, (y + shift[1]) * sizes[0] / height)
        px = (inside[0] - canvas.fit.left) * canvas.width / canvas.fit.width
        py = (inside[1] - canvas.fit.top) * canvas.height / canvas.fit.height
        found.append((np.clip(px, 0, canvas.width), np.clip(py, 0, canvas.height), each[y, x]))
    return np.array(found)
