"""The objects in pictures, with a box around each: `python detect.py PACKAGE.tar FOLDER PICTURE …`."""  # noqa: INP001

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

import tvmbuild
from tvmbuild.package.preprocess import PADDING
from tvmbuild.package.runtime.session import Session

MARGINS = (0, 0.5)
"""The grey margins to add on each side, over the picture's own size: an object that fills a picture is found only when
it is smaller.
"""
MIN_SCORE = 0.5
MAX_OVERLAP = 0.45
"""The share of their union above which, of two boxes of one class, only the likelier one stays."""
COLORS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#800000")


@dataclass(frozen=True)
class Found:
    """An object in a picture; the box is left, top, right, bottom in the picture's pixels."""

    label: str
    score: float
    box: tuple[float, float, float, float]


def find(session: Session, picture: Image.Image) -> list[Found]:
    """Return the objects in the picture, the likeliest first."""
    views = [look(session, picture, margin) for margin in MARGINS]
    boxes, scores = (np.concatenate(parts) for parts in zip(*views, strict=True))
    classes, scores = scores.argmax(axis=1), scores.max(axis=1)
    labels = session.metadata.labels or [str(number) for number in range(classes.max(initial=0) + 1)]
    return [
        Found(labels[classes[index]], float(scores[index]), tuple(boxes[index].tolist()))
        for index in suppress(boxes, scores, classes)
    ]


def look(session: Session, picture: Image.Image, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Return boxes in the picture's pixels, and the scores of their classes, with that margin around the picture."""
    border = tuple(round(side * margin) for side in picture.size)
    view = ImageOps.expand(picture, border, (PADDING,) * 3)
    rows = session.run({"picture": session.preprocess(view)})["detections"][0]
    scores = rows[:, 4:5] * rows[:, 5:]
    likely = scores.max(axis=1) >= MIN_SCORE
    _, _, height, width = session.inputs[0].shape
    boxes = undo_letterbox(corners(rows[likely, :4]), (width, height), view.size) - np.tile(border, 2)
    return np.clip(boxes, 0, np.tile(picture.size, 2)), scores[likely]


def corners(boxes: np.ndarray) -> np.ndarray:
    """Return boxes given by centre and size as left, top, right, bottom."""
    centres, halves = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([centres - halves, centres + halves], axis=1)


def undo_letterbox(boxes: np.ndarray, tensor: tuple[int, int], picture: tuple[int, int]) -> np.ndarray:
    """Convert boxes of the model's input to boxes of the picture that was fitted into it; both sizes: width, height."""
    scale = min(tensor[0] / picture[0], tensor[1] / picture[1])
    border = (np.array(tensor) - np.array(picture) * scale) / 2
    return (boxes - np.tile(border, 2)) / scale


def suppress(boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray) -> list[int]:
    """Return the indices of the boxes that stay, the likeliest first: non-maximum suppression for each class."""
    waiting, kept = np.argsort(-scores, kind="stable"), []
    while waiting.size:
        best, waiting = int(waiting[0]), waiting[1:]
        kept.append(best)
        rivals = (classes[waiting] == classes[best]) & (overlap(boxes[best], boxes[waiting]) > MAX_OVERLAP)
        waiting = waiting[~rivals]
    return kept


def overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the area that a box shares with each of the others, over that of their union."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=1)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], axis=1)
    return shared / np.maximum(area + areas - shared, 1e-9)


def draw(picture: Image.Image, things: list[Found]) -> Image.Image:
    """Return a copy with a box around each object and its name; each class has one colour."""
    drawn = picture.convert("RGB")
    canvas, line = ImageDraw.Draw(drawn), max(2, round(max(picture.size) / 200))
    font, labels = ImageFont.load_default(7 * line), sorted({thing.label for thing in things})
    for thing in reversed(things):  # the likeliest on top
        color = COLORS[labels.index(thing.label) % len(COLORS)]
        canvas.rectangle(thing.box, outline=color, width=line)
        text, (left, top) = f"{thing.label} {thing.score:.2f}", thing.box[:2]
        _, _, width, height = canvas.textbbox((0, 0), text, font)
        top = max(top - height - line, 0)
        canvas.rectangle((left, top, left + width + 2 * line, top + height + line), fill=color)
        canvas.text((left + line, top), text, "white", font)
    return drawn


def main() -> None:
    """Print the objects in each picture and write it with boxes into the folder."""
    parser = argparse.ArgumentParser(description="Find things in pictures and draw a box around each.")
    for name, count in (("package", None), ("folder", None), ("pictures", "+")):
        parser.add_argument(name, type=Path, nargs=count)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with tvmbuild.load(args.package) as session:
        for path in args.pictures:
            picture, result = Image.open(path).convert("RGB"), args.folder / f"{path.stem}.png"
            things = find(session, picture)
            draw(picture, things).save(result)
            print(f"{path} -> {result}")
            for thing in things:
                print(f"  {thing.score:.2f}  {thing.label:12}", *(f"{side:5.0f}" for side in thing.box))


if __name__ == "__main__":
    main()
