"""Draw a line of text as a picture: `python draw_line.py "some words" line.png`."""  # noqa: INP001

from __future__ import annotations

import sys

from PIL import Image, ImageDraw, ImageFont


def draw_line(text: str) -> Image.Image:
    """Return black letters on white, in Pillow's own font."""
    font = ImageFont.load_default(40)
    left, top, right, bottom = font.getbbox(text)
    picture = Image.new("RGB", (round(right - left) + 40, round(bottom - top) + 20), "white")
    ImageDraw.Draw(picture).text((20 - left, 10 - top), text, "black", font)
    return picture


if __name__ == "__main__":
    draw_line(sys.argv[1]).save(sys.argv[2])
