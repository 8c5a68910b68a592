"""Results of drawn outputs: the compiled function of a kind of result, and the same in plain NumPy and float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from tvmbuild.base.frame_specs import Crop, Frame
from tvmbuild.base.postprocess_specs import Postprocess, Segmentation
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.canvas import make_canvas
from tvmbuild.compiler.kernels.results.select import GEOMETRY
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.table import describe_results
from tvmbuild.package.frames import find_frame_geometry
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.package.preprocess import Fit

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Placement:
    """A frame of ``height`` by ``width`` pixels whose used part is at the place ``fit`` of an input of this size."""

    height: int
    width: int
    fit: Fit
    size: tuple[int, int]
    crop: Crop | None = None

    @property
    def frame(self) -> Frame:
        """The frame."""
        return Frame(self.height, self.width, "mono8", crop=self.crop)

    def list_sides(self) -> list[tuple[int, int, int, int, int]]:
        """Return for rows and columns: first and number of those that are used, place and length in the input."""
        part, fit = self.frame.used, self.fit
        rows = (self.height, part.top, part.height, fit.top, fit.height)
        return [rows, (self.width, part.left, part.width, fit.left, fit.width)]


def compile_result(
    asked: Postprocess, shapes: Sequence[tuple[tuple[int, ...], str]], placed: Placement
) -> Callable[..., Arrays]:
    """Return the function of a result for outputs with these shapes and types, for the CPU.

    It takes the outputs and the thresholds, and returns the result's arrays.
    """
    outputs = tuple(TensorInfo(f"out{place}", *each) for place, each in enumerate(shapes))
    interface = Interface("net", (TensorInfo("picture", (1, 3, *placed.size), "float32"),), outputs)
    (form,) = describe_results(interface, EntryOptions(postprocess=(asked,)))
    builder = relax.BlockBuilder()
    given = [relax.Var(each.name, relax.TensorType(each.shape, each.dtype)) for each in outputs]
    thresholds = relax.Var("thresholds", relax.TensorType((2,), "float32"))
    geometry = relax.Var("geometry", relax.TensorType((GEOMETRY,), "float32"))
    with builder.function("main", [*given, thresholds, geometry]):
        canvas = make_canvas(placed.frame, placed.fit, placed.size)
        request = Request([given[place] for place in form.places], thresholds, geometry, canvas)
        builder.emit_func_output(relax.Tuple(form.write(KernelCalls(builder, on_gpu=False), request)))
    built = relax.build(builder.get(), tvm.target.Target({"kind": "llvm", "num-cores": 2}))
    machine = relax.VirtualMachine(built, tvm.cpu())
    place = find_frame_geometry(placed.frame, placed.fit)

    def run(values: Sequence[np.ndarray], limits: Sequence[float]) -> Arrays:
        numbers = np.array(limits, np.float32)
        return [each.numpy() for each in machine["main"](*map(tvm.runtime.tensor, [*values, numbers, place]))]

    return run


def find_places(placed: Placement, axis: int) -> np.ndarray:
    """Return the centres of a frame's rows or columns in the input's pixels, NaN where the network sees nothing."""
    size, begin, used, offset, length = placed.list_sides()[axis]
    numbers = np.arange(size)
    places = (numbers - begin + 0.5) * length / used + offset
    unseen = (numbers < begin) | (numbers >= begin + used) | (places < 0) | (places >= placed.size[axis])
    return np.where(unseen, np.nan, places)


def find_ties(placed: Placement, shape: tuple[int, int] = (1, 1)) -> np.ndarray:
    """Return which pixels of a frame lie at the border of two pixels if the input is divided into this shape."""
    ties = []
    for axis, (size, begin, used, offset, length) in enumerate(placed.list_sides()):
        at = ((np.arange(size) - begin + 0.5) * length / used + offset) / placed.size[axis] * shape[axis]
        ties.append(np.abs(at - np.rint(at)) < 1e-6)
    tied: np.ndarray = ties[0][:, None] | ties[1][None, :]
    return tied


def interpolate(placed: Placement, maps: np.ndarray, *, nearest: bool = False) -> np.ndarray:
    """Return maps [n, height, width] at the frame's pixels, with NaN where the network sees nothing."""
    found = maps.astype(np.float64)
    for axis in (0, 1):
        places, size = find_places(placed, axis), maps.shape[axis + 1]
        at = np.nan_to_num(places) / placed.size[axis] * size
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
        np.moveaxis(taken, axis + 1, 0)[np.isnan(places)] = np.nan
        found = taken
    return found


def segment(placed: Placement, asked: Segmentation, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the map of classes of scores [classes, height, width], and the lead of the best score at each pixel."""
    found = interpolate(placed, scores, nearest=asked.interpolation == "nearest")
    outside = np.isnan(found[0])
    if len(found) == 1:
        value = 1 / (1 + np.exp(-found[0])) if asked.activation == "sigmoid" else found[0]
        classes, lead = (value > asked.score).astype(int), np.abs(value - asked.score)
    else:
        classes = found.argmax(axis=0)
        lead = np.sort(found, axis=0)[-1] - np.sort(found, axis=0)[-2]
    lead = np.where(outside, np.inf, lead)
    shape = scores.shape[1:] if asked.interpolation == "nearest" else (1, 1)
    return np.where(outside, 255, classes), np.where(find_ties(placed, shape), 0.0, lead)


def draw_instances(placed: Placement, boxes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the map of objects, best first, and the distance of each pixel from a decision.

    ``boxes`` [n, 4] are in the input's pixels, ``values`` [n, height, width] are those of the masks.
    """
    y, x = (np.nan_to_num(find_places(placed, axis), nan=-1e6) for axis in (0, 1))
    y, x = y[:, None], x[None]
    found = np.zeros((placed.height, placed.width), int)
    distance = np.full(found.shape, np.inf)
    masks = interpolate(placed, values) if len(values) else values
    for number, (box, mask) in enumerate(zip(boxes, masks, strict=True), 1):
        inside = (box[0] <= x) & (x < box[2]) & (box[1] <= y) & (y < box[3]) & ~np.isnan(mask)
        edges = [np.abs(box[0] - x), np.abs(box[2] - x), np.abs(box[1] - y), np.abs(box[3] - y)]
        near = np.minimum.reduce([np.broadcast_to(edge, found.shape) for edge in edges])
        distance = np.minimum(distance, np.where(inside, np.minimum(near, np.abs(np.nan_to_num(mask))), near))
        found = np.where((found == 0) & inside & (np.nan_to_num(mask) > 0), number, found)
    return found, np.where(find_ties(placed), 0.0, distance)


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


def find_points(placed: Placement, maps: np.ndarray) -> np.ndarray:
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
        inside = ((y + shift[1]) * placed.size[0] / height, (x + shift[0]) * placed.size[1] / width)
        row, column = (
            np.clip((value - offset) * used / length + begin, 0, size)
            for value, (size, begin, used, offset, length) in zip(inside, placed.list_sides(), strict=True)
        )
        found.append((column, row, each[y, x]))
    return np.array(found)
