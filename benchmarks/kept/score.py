"""Scores of detectors and classifiers against the answers in a JSON file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

Outputs = Mapping[str, np.ndarray]
Boxes = tuple[np.ndarray, np.ndarray]
"""The corners of each box, and its score for each class."""
Decode = Callable[[Outputs], Boxes]
Object = tuple[int, float, list[float]]
"""A class, a score, a box."""
Objects = dict[str, list[Object]]
"""The objects of each picture."""


def top1(outputs: Sequence[Outputs], samples: Sequence[str], truths: Path) -> float:
    """Return the share with the right class among the pictures whose class is known."""
    right = json.loads(truths.read_text())
    judged = [(each, right[name]) for each, name in zip(outputs, samples, strict=True) if right[name] is not None]
    return float(np.mean([int(each["logits"].argmax()) == truth for each, truth in judged]))


def map50_yolox(outputs: Sequence[Outputs], samples: Sequence[str], truths: Path) -> float:
    """Return YOLOX's mean average precision."""
    return mean_ap(outputs, samples, truths, decode_yolox)


def map50_yolov3(outputs: Sequence[Outputs], samples: Sequence[str], truths: Path) -> float:
    """Return YOLOv3's mean average precision."""
    return mean_ap(outputs, samples, truths, decode_yolov3)


def map50_nanodet(outputs: Sequence[Outputs], samples: Sequence[str], truths: Path) -> float:
    """Return NanoDet's mean average precision."""
    return mean_ap(outputs, samples, truths, decode_nanodet)


def decode_yolox(outputs: Outputs) -> Boxes:
    """Decode offsets from the cells of three grids."""
    raw = outputs["output"][0]
    cells = [(x, y, s) for s in (8, 16, 32) for y in range(416 // s) for x in range(416 // s)]
    x, y, stride = np.array(cells, np.float32).T
    center = (raw[:, :2] + np.stack([x, y], 1)) * stride[:, None]
    half = np.exp(np.minimum(raw[:, 2:4], 20)) * stride[:, None] / 2
    return np.concatenate([center - half, center + half], 1), raw[:, 4:5] * raw[:, 5:]


def decode_yolov3(outputs: Outputs) -> Boxes:
    """Decode centres and sizes in pixels."""
    raw = outputs["Detections"][0]
    half = raw[:, 2:4] / 2
    return np.concatenate([raw[:, :2] - half, raw[:, :2] + half], 1), raw[:, 4:5] * raw[:, 5:]


def decode_nanodet(outputs: Outputs) -> Boxes:
    """Decode distributions of the distances from cells to the four sides."""
    arrays = [each[0] for each in outputs.values()]
    boxes, scores = [], []
    for stride in (8, 16, 32):
        side = 416 // stride
        of_classes = next(each for each in arrays if each.shape == (side * side, 80))
        sides = next(each for each in arrays if each.shape == (side * side, 32)).reshape(-1, 4, 8)
        likely = np.exp(sides - sides.max(-1, keepdims=True))
        far = (likely / likely.sum(-1, keepdims=True) * np.arange(8)).sum(-1) * stride
        y, x = np.divmod(np.arange(side * side), side)
        center = np.stack([x, y], 1) * stride + (stride - 1) / 2
        boxes.append(np.concatenate([center - far[:, :2], center + far[:, 2:]], 1))
        scores.append(of_classes)
    return np.concatenate(boxes), np.concatenate(scores)


def find_objects(boxes: np.ndarray, scores: np.ndarray, least: float = 0.05, most: int = 100) -> list[Object]:
    """Return (class, score, box) of each object, after non-maximum suppression, the surest first."""
    places, classes = np.nonzero(scores > least)
    order = np.argsort(-scores[places, classes], kind="stable")[:1000]
    found: list[Object] = []
    for place, kind in zip(places[order], classes[order], strict=True):
        if not any(other == kind and iou(boxes[place], np.array(box)) > 0.5 for other, _, box in found):
            found.append((int(kind), float(scores[place, kind]), [float(each) for each in boxes[place]]))
        if len(found) == most:
            break
    return found


def iou(one: np.ndarray, other: np.ndarray) -> float:
    """Return the intersection of two boxes over their union."""
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    both = max(high[0] - low[0], 0) * max(high[1] - low[1], 0)
    areas = [(each[2] - each[0]) * (each[3] - each[1]) for each in (one, other)]
    return float(both / max(sum(areas) - both, 1e-9))


def mean_ap(outputs: Sequence[Outputs], samples: Sequence[str], truths: Path, decode: Decode) -> float:
    """Return the mean of the average precisions of all classes, at an intersection over union of 0.5."""
    right = json.loads(truths.read_text())
    found = {name: find_objects(*decode(each)) for each, name in zip(outputs, samples, strict=True)}
    classes = sorted({kind for objects in right.values() for kind, _, _ in objects})
    return float(np.mean([average_precision(found, right, kind) for kind in classes]))


def average_precision(found: Objects, right: Objects, kind: int) -> float:
    """Return the area below the curve of precision over recall for one class."""
    wanted = {name: [box for each, _, box in objects if each == kind] for name, objects in right.items()}
    hits: list[bool] = []
    seen: dict[str, set[int]] = {name: set() for name in wanted}
    guesses = [(score, name, box) for name, objects in found.items() for each, score, box in objects if each == kind]
    for _, name, box in sorted(guesses, key=lambda each: -each[0]):
        scores = [iou(np.array(box), np.array(each)) for each in wanted[name]]
        best = int(np.argmax(scores)) if scores else -1
        hit = best >= 0 and scores[best] > 0.5 and best not in seen[name]
        hits.append(hit)
        if hit:
            seen[name].add(best)
    count = sum(map(len, wanted.values()))
    recall, precision = np.cumsum(hits) / count, np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(sum(precision[i:].max() * (recall[i] - (recall[i - 1] if i else 0)) for i in range(len(hits))))
