"""The usual code for each kind of result: NumPy and OpenCV, like that of the networks' own repositories."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tvmbuild.base.postprocess_specs import Classes, Heatmaps, Segmentation, Text, Vector
from tvmbuild.benchmarking.frames.candidates import unsquash
from tvmbuild.benchmarking.frames.class_check import find_probabilities
from tvmbuild.benchmarking.frames.map_check import find_pixel_scores
from tvmbuild.benchmarking.frames.usual_boxes import find_boxes, find_keypoints, find_masks
from tvmbuild.benchmarking.frames.usual_pixels import draw_nearest, draw_part
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.package import results
from tvmbuild.package.result_arrays import OUTSIDE
from tvmbuild.package.results import Class, Map, Point, Result, name_class

Outputs = Mapping[str, np.ndarray]
_SHIFT = 0.25
"""The shift of a peak towards its higher neighbour, in pixels."""


def find_classes(decoding: Decoding, outputs: Outputs, score: float, _overlap: float) -> tuple[Class, ...]:
    """Return the likeliest classes in a classifier's output."""
    asked, scores = decoding.asked, find_probabilities(decoding, outputs)
    if not isinstance(asked, Classes):
        raise TypeError(f"{asked} asks for no classes")
    best = np.argsort(-scores, kind="stable")[: asked.most]
    chosen = [(float(scores[at]), int(at)) for at in best if scores[at] > score]
    return tuple(Class(value, number, name_class(decoding.labels, number)) for value, number in chosen)


def find_map(decoding: Decoding, outputs: Outputs, score: float, _overlap: float) -> tuple[Map]:
    """Return the classes of the frame's pixels: scores are interpolated class by class, and the best one kept."""
    asked = decoding.asked
    if not isinstance(asked, Segmentation):
        raise TypeError(f"{asked} asks for no map")
    scores, part = find_pixel_scores(decoding, outputs), decoding.seen
    classes = np.full(decoding.size, OUTSIDE, np.uint8)
    nearest = decoding.has_classes or asked.interpolation == "nearest"
    draw = draw_nearest if nearest else draw_part
    if len(scores) > 1 and nearest:
        scores = scores.argmax(axis=0).astype(np.uint8)[None]
    first = draw(decoding, scores[0], part)
    if len(scores) > 1:
        classes[part] = _find_best(decoding, scores, first)
    elif scores.dtype.kind in "iu":
        classes[part] = first
    else:
        classes[part] = first > (unsquash(score) if asked.activation == "sigmoid" else score)
    return (Map(classes, decoding.labels),)


def _find_best(decoding: Decoding, scores: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return the class with the highest score at each pixel; ``best`` are those of the first class."""
    found = np.zeros(best.shape, np.uint8)
    for number in range(1, len(scores)):
        values = draw_part(decoding, scores[number], decoding.seen)
        np.copyto(found, np.uint8(number), where=values > best)
        np.maximum(best, values, out=best)
    return found


def find_text(decoding: Decoding, outputs: Outputs, _score: float, _overlap: float) -> tuple[results.Text]:
    """Return the text in the output of a network trained with CTC."""
    asked, scores = decoding.asked, decoding.find_output(outputs)
    if not isinstance(asked, Text):
        raise TypeError(f"{asked} asks for no text")
    scores = scores.reshape(-1, scores.shape[-1])
    behind, blank = (1, 0) if asked.blank == "first" else (0, scores.shape[1] - 1)
    best = scores.argmax(axis=1)
    kept = best != blank
    kept[1:] &= best[1:] != best[:-1]
    chosen = scores[kept]
    values = chosen.max(axis=1)
    if asked.activation == "softmax":
        values = 1 / np.exp(chosen - values[:, None]).sum(axis=1)
    symbols = tuple(best[kept].tolist())
    names = [name_class(decoding.labels, symbol - behind) for symbol in symbols]
    text = "".join(f"<{symbol}>" if name is None else name for symbol, name in zip(symbols, names, strict=True))
    return (results.Text(text, float(values.mean()) if symbols else 0.0, symbols),)


def find_vector(decoding: Decoding, outputs: Outputs, _score: float, _overlap: float) -> tuple[results.Vector]:
    """Return the vector in an encoder's output."""
    asked, values = decoding.asked, decoding.find_output(outputs).reshape(-1)
    if not isinstance(asked, Vector):
        raise TypeError(f"{asked} asks for no vector")
    return (results.Vector(values / max(float(np.linalg.norm(values)), 1e-12) if asked.normalise else values),)


def find_points(decoding: Decoding, outputs: Outputs, _score: float, _overlap: float) -> tuple[Point, ...]:
    """Return the peaks of heatmaps, moved a quarter of a pixel towards their higher neighbours."""
    if not isinstance(decoding.asked, Heatmaps):
        raise TypeError(f"{decoding.asked} asks for no heatmaps")
    maps = decoding.find_output(outputs)[0]
    count, height, width = maps.shape
    flat = maps.reshape(count, -1)
    peaks, numbers = flat.argmax(axis=1), np.arange(count)
    scores = flat[numbers, peaks]
    left, top, across, down, right, bottom = decoding.geometry.tolist()
    y, x = np.divmod(peaks, width)
    places = []
    for at, size, step, extent in ((x, width, 1, decoding.width), (y, height, width, decoding.height)):
        inside = (at > 0) & (at < size - 1)
        near = np.where(inside, step, 0)
        shift = _SHIFT * np.sign(flat[numbers, peaks + near] - flat[numbers, peaks - near])
        places.append((at + shift) * extent / size)
    columns = np.clip((places[0] - left) * across, 0, right).tolist()
    rows = np.clip((places[1] - top) * down, 0, bottom).tolist()
    return tuple(
        Point(column, row, score, number, name_class(decoding.labels, number))
        for number, (column, row, score) in enumerate(zip(columns, rows, scores.tolist(), strict=True))
    )


def find_outputs(decoding: Decoding, outputs: Outputs, _score: float, _overlap: float) -> tuple[results.Output, ...]:
    """Return the outputs as they are."""
    return tuple(results.Output(name, outputs[name]) for name in decoding.asked.outputs)


Finder = Callable[[Decoding, Outputs, float, float], tuple[Result, ...]]
FINDERS: dict[str, Finder] = {
    "boxes": find_boxes,
    "masks": find_masks,
    "keypoints": find_keypoints,
    "classes": find_classes,
    "segmentation": find_map,
    "text": find_text,
    "vector": find_vector,
    "heatmaps": find_points,
    "raw": find_outputs,
}
"""Kind of result → the usual code that makes it."""
