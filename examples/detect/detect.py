"""The objects in pictures, with a box around each: `python detect.py PACKAGE.tar FOLDER PICTURE …`."""  # noqa: INP001

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from PIL import Image, ImageOps

import tvmbuild
from tvmbuild.package.drawing import draw_results
from tvmbuild.package.results import Box
from tvmbuild.package.runtime.session import Session

GREY = (114, 114, 114)
MARGINS = (0, 0.5)
"""The grey margins to add on each side, over the picture's own size: this network finds an object that fills a picture
only when it is smaller.
"""


def find(session: Session, picture: Image.Image) -> list[Box]:
    """Return the objects in the picture, the likeliest first, from the view that shows more."""
    views = [look(session, picture, margin) for margin in MARGINS]
    return max(views, key=lambda boxes: sum(box.score for box in boxes))


def look(session: Session, picture: Image.Image, margin: float) -> list[Box]:
    """Return the objects in the picture with that margin around it, in the picture's own pixels."""
    across, down = (round(side * margin) for side in picture.size)
    boxes = session.run_picture(ImageOps.expand(picture, (across, down), GREY))
    own = [clip(replace(box, x=box.x - across, y=box.y - down), picture) for box in boxes if isinstance(box, Box)]
    return [box for box in own if box.width and box.height]


def clip(box: Box, picture: Image.Image) -> Box:
    """Return the part of the box inside of the picture."""
    x, y = (min(max(start, 0), end) for start, end in zip((box.x, box.y), picture.size, strict=True))
    right, bottom = min(box.x + box.width, picture.width), min(box.y + box.height, picture.height)
    return replace(box, x=x, y=y, width=max(right - x, 0), height=max(bottom - y, 0))


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
            boxes = find(session, picture)
            draw_results(picture, tuple(boxes)).save(result)
            print(f"{path} -> {result}")
            for box in boxes:
                sides = (box.x, box.y, box.x + box.width, box.y + box.height)
                print(f"  {box.score:.2f}  {box.label:12}", *(f"{side:5.0f}" for side in sides))


if __name__ == "__main__":
    main()
