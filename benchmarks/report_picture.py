"""Take a picture of a report's page in a browser.

python benchmarks/report_picture.py build/report.html PICTURE.png [--cell MODEL@TARGET] [--width 1140] [--dark]

It is as high as the page, or --height. Debian's chromium draws it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from urllib.parse import quote

from PIL import Image

COLOURS = 256
"""The colours of the picture; a page has fewer, except at the edges of letters."""
SUPPORT = Path(__file__).resolve().parent.parent / "tests/support"


def main() -> None:
    """Open the page, and write its picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--cell", default="", metavar="MODEL@TARGET", help="its page (default: the matrix)")
    parser.add_argument("--width", type=int, default=1140)
    parser.add_argument("--height", type=int)
    parser.add_argument("--dark", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(SUPPORT))
    from browser import started_browser  # noqa: PLC0415 - it lies there

    with started_browser() as browser:
        browser.resize(args.width, args.height or 600, dark=args.dark)
        browser.open(args.report.resolve().as_uri() + (f"#{quote(args.cell, safe='@')}" if args.cell else ""))
        browser.evaluate("scrollTo(0, 0)")  # it went to the cell's heading
        browser.shoot(args.picture, whole=args.height is None)
    with Image.open(args.picture) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(args.picture, optimize=True)


if __name__ == "__main__":
    main()
