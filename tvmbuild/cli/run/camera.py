"""`tvmbuild run --camera`: the results in each frame of a camera or of a video file, and frames a second."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console

from tvmbuild.cli.run.frames import (
    check_drawable,
    explain_preparation,
    open_session,
    read_wishes,
    run_pixels,
    show_json,
)
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.drawing import draw_results
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.result_arrays import require_postprocess
from tvmbuild.package.results import Results

_EVERY_S = 1.0
"""The time between two lines."""
_RATE = 25.0
"""The frames a second of a written video if the source does not say its own."""
_FORMATS = {".avi": "MJPG", ".mp4": "mp4v"}
"""Suffix → codec of a written video."""


def run_camera(console: Console, info: PackageInfo, args: argparse.Namespace) -> None:
    """Run the package on the frames of ``args.camera`` until they end, and show how many there are in a second.

    Raises TvmbuildError if OpenCV is missing, or if the source or the file to write cannot be opened.
    """
    require_postprocess(info)
    if args.device != "local":
        raise TvmbuildError("--camera runs only on this machine", "leave --device out")
    if args.draw is not None:
        check_drawable(info)
    if args.draw is not None and args.draw.suffix.lower() not in _FORMATS:
        raise TvmbuildError(f"{args.draw} is not a video", f"name a file that ends in {' or '.join(_FORMATS)}")
    cv2 = _import_opencv()
    wishes = read_wishes(info, args)
    watch = _Watch(console, quiet=args.json)
    with _opened(cv2, args.camera) as camera, open_session(args) as session:
        rate = camera.get(cv2.CAP_PROP_FPS) or _RATE
        with _writer(cv2, args.draw, rate) as write, suppress(KeyboardInterrupt):
            for pixels in _read_frames(camera, args.frames):
                watch.tell_once(explain_preparation(info, *pixels.shape[:2]))
                begin = time.perf_counter()
                results = run_pixels(session, pixels, wishes)
                watch.count(time.perf_counter() - begin, results)
                if args.json:
                    print(show_json(results), flush=True)
                if args.draw:
                    write(draw_results(Image.fromarray(pixels[:, :, ::-1]), results))
    watch.sum_up()


def _import_opencv() -> Any:
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        raise TvmbuildError("--camera needs OpenCV", "pip install 'tvmbuild[camera]'") from error


@contextmanager
def _opened(cv2: Any, source: str) -> Iterator[Any]:
    camera = cv2.VideoCapture(int(source) if source.isdigit() else source)  # 0 is /dev/video0, or a system's first
    try:
        if not camera.isOpened():
            raise TvmbuildError(
                f"{source} cannot be opened as a camera or a video", "name /dev/video0, an .mp4 or an .avi"
            )
        yield camera
    finally:
        camera.release()


def _read_frames(camera: Any, most: int | None) -> Iterator[np.ndarray]:
    """Yield the frames (blue, green, red), at most ``most``."""
    count = 0
    while most is None or count < most:
        found, pixels = camera.read()
        if not found:
            return
        yield pixels
        count += 1


@contextmanager
def _writer(cv2: Any, path: Path | None, rate: float) -> Iterator[Callable[[Image.Image], None]]:
    """Yield the function that adds a picture to a video."""
    opened: list[Any] = []

    def write(picture: Image.Image) -> None:
        if not opened:
            code = cv2.VideoWriter_fourcc(*_FORMATS[path.suffix.lower()]) if path else 0
            opened.append(cv2.VideoWriter(str(path), code, rate, picture.size))
            if not opened[0].isOpened():
                raise TvmbuildError(f"{path} cannot be written", "name a file in a folder that exists")
        opened[0].write(np.ascontiguousarray(np.asarray(picture)[:, :, ::-1]))

    try:
        yield write
    finally:
        for each in opened:
            each.release()


class _Watch:
    """Counts frames and prints a line every second."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._begin = self._last = time.perf_counter()
        self._seconds: list[float] = []
        self._told = 0
        self._remarks: set[str] = set()

    def tell_once(self, text: str | None) -> None:
        """Print a remark about the frames, unless it was printed before."""
        if text is not None and text not in self._remarks:
            self._remarks.add(text)
            self._print(text)

    def count(self, seconds: float, results: Results) -> None:
        """Add a frame that took this time."""
        self._seconds.append(seconds)
        now = time.perf_counter()
        if now - self._last >= _EVERY_S:
            rate = (len(self._seconds) - self._told) / (now - self._last)
            self._print(f"{rate:.1f} frames/s, {seconds * 1e3:.1f} ms from the frame to {len(results)} results")
            self._last, self._told = now, len(self._seconds)

    def sum_up(self) -> None:
        """Print the sum. Raises TvmbuildError if there was no frame."""
        if not self._seconds:
            raise TvmbuildError("the camera gave no frame", "see whether another program uses it")
        rate = len(self._seconds) / (time.perf_counter() - self._begin)
        middle, late = np.percentile(self._seconds, [50, 95]) * 1e3
        self._print(
            f"{len(self._seconds)} frames, {rate:.1f} frames/s with reading; "
            f"from the frame to the result {middle:.1f} ms, 95 % within {late:.1f} ms"
        )

    def _print(self, text: str) -> None:
        if self._quiet:
            print(text, file=sys.stderr)
        else:
            self._console.print(text)
