"""`tvmbuild run --frame`: the results in one frame, as lines, as JSON and drawn into the picture."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console

from tvmbuild import load
from tvmbuild.base.files import publish
from tvmbuild.base.frame_specs import ENCODINGS, Encoding, Frame
from tvmbuild.base.postprocess_specs import Raw, Vector, is_in_input, kind_of
from tvmbuild.cli.arguments import positive
from tvmbuild.cli.run.results import print_results
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.colors import read_colors
from tvmbuild.package.drawing import draw_results
from tvmbuild.package.frames import find_frame
from tvmbuild.package.inputs import read_array_file
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.preprocess import open_picture
from tvmbuild.package.result_arrays import require_postprocess
from tvmbuild.package.results import Results
from tvmbuild.package.runtime.frame_calls import read_others
from tvmbuild.package.runtime.session import Session

_ORDERS: dict[Encoding, tuple[str, tuple[int, ...]]] = {
    "rgb8": ("RGB", (0, 1, 2)),
    "bgr8": ("RGB", (2, 1, 0)),
    "rgba8": ("RGBA", (0, 1, 2, 3)),
    "bgra8": ("RGBA", (2, 1, 0, 3)),
}
"""The encodings that a picture from a file can have: Pillow's mode, and the order of its channels."""
_RAW = frozenset({".bin", ".raw", ".yuv", *(f".{each}" for each in ENCODINGS)})
"""The suffixes of files that hold a frame's bytes and nothing else."""
_PICTURES = "name a .png or a .jpg"
"""The remedy for a picture that cannot be written."""


def add_frame_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments about frames."""
    parser.add_argument(
        "--frame",
        type=Path,
        metavar="FILE",
        help="a picture, or a camera's bytes in an .npy or .raw: print the results in it",
    )
    parser.add_argument(
        "--camera",
        metavar="SOURCE",
        help="/dev/video0 (or 0) or a video file: results in each frame, and frames a second",
    )
    parser.add_argument("--frames", type=positive, metavar="N", help="end --camera after N frames")
    parser.add_argument("--encoding", metavar="NAME", help="the encoding of the bytes, if several frames fit them")
    parser.add_argument("--score", type=float, metavar="X", help="the score that a result must exceed")
    parser.add_argument("--overlap", type=float, metavar="X", help="the part of their union that two boxes may share")
    parser.add_argument(
        "--draw",
        type=Path,
        metavar="FILE",
        help="draw the results into a picture, or into an .avi or .mp4 for --camera",
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON, a line a frame")


def run_frame(console: Console, info: PackageInfo, args: argparse.Namespace) -> None:
    """Run the package on the frame of ``args`` and show its results.

    Raises TvmbuildError if the package makes no results, or if the file is not a frame or picture for it.
    """
    require_postprocess(info)
    if args.device != "local":
        raise TvmbuildError("--frame runs only on this machine", "leave --device out")
    is_picture = args.frame.suffix.lower() not in (".npy", *_RAW)
    if is_picture and args.encoding:
        raise TvmbuildError("--encoding is for a camera's bytes, in an .npy or .raw", "leave --encoding out")
    if args.draw is not None:
        _check_drawing(info, args.draw)
    wishes = read_wishes(info, args)
    frame = open_picture(args.frame) if is_picture else _read_bytes(info, args)
    with open_session(args) as session:
        if isinstance(frame, np.ndarray):
            results = _as_results(session.run_frame(frame, args.encoding, **wishes))
        else:
            results = run_picture(session, frame, wishes)
    if args.json:
        print(show_json(results))
    else:
        print_results(console, info, results)
    if args.draw:
        picture = _develop(info, frame, args.encoding) if isinstance(frame, np.ndarray) else frame
        _save(draw_results(picture, results), args.draw)


def check_drawable(info: PackageInfo) -> None:
    """Raise TvmbuildError if the results have no place in a picture."""
    if info.postprocess and all(isinstance(each, Vector | Raw) for each in info.postprocess):
        kinds = " and ".join(f"`{kind_of(each)}`" for each in info.postprocess)
        raise TvmbuildError(f"results of {kinds} cannot be drawn", "leave --draw out")
    for each in info.postprocess:
        if is_in_input(each):
            raise TvmbuildError(
                f"`{kind_of(each)}` of {info.model} has the pixels of the network's input, and cannot be drawn",
                "leave --draw out, or state `resolution: frame` in models.yaml and build it again",
            )


def _check_drawing(info: PackageInfo, path: Path) -> None:
    """Raise TvmbuildError if the results have no place in a picture, or if ``path`` cannot be one."""
    check_drawable(info)
    if path.suffix.lower() not in Image.registered_extensions():
        raise TvmbuildError(f"{path} cannot be written as a picture: it ends in no known format", _PICTURES)
    if not path.parent.is_dir():
        raise TvmbuildError(f"{path} cannot be written as a picture: {path.parent} is no folder", "make it first")


def _read_bytes(info: PackageInfo, args: argparse.Namespace) -> np.ndarray:
    """Return the bytes in the file of ``args``, in the shape of the package's frame that they fill."""
    path: Path = args.frame
    if path.suffix.lower() == ".npy":
        return read_array_file(path)
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise TvmbuildError(f"{path} cannot be read: {error.strerror}", "name a file with a frame's bytes") from error
    fitting = [each for each in info.frames if math.prod(each.shape) == len(data)]
    fitting = [each for each in fitting if args.encoding in (None, each.encoding)]
    if len(fitting) == 1:
        return data.reshape(fitting[0].shape)
    known = ", ".join(f"{each.encoding} {list(each.shape)} of {math.prod(each.shape)} bytes" for each in info.frames)
    if not fitting:
        remedy = "give all bytes of one frame, its gaps between rows included"
    elif len({each.encoding for each in fitting}) == 1:
        remedy = "give the bytes as an .npy, whose shape tells which"
    else:
        remedy = "name one by --encoding"
    raise TvmbuildError(f"{path} has {len(data)} bytes; {info.model} takes {known or 'no frames'}", remedy)


def _develop(info: PackageInfo, data: np.ndarray, encoding: str | None) -> Image.Image:
    """Return the picture that a frame's bytes are."""
    frame = info.frames[find_frame(info.frames, data.shape, encoding, info.model)]
    return Image.fromarray(read_colors(frame, data, "rgb").astype(np.uint8))


@contextmanager
def open_session(args: argparse.Namespace) -> Iterator[Session]:
    """Yield the session of the package, or of the size of ``--size`` only.

    Raises TvmbuildError if the package cannot run here, or has no such size.
    """
    with load(args.package, args.threads) as session:
        yield session.at(args.size) if args.size else session


def read_wishes(info: PackageInfo, args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Session.run_frame` beside the frame: thresholds, and inputs from the files of ``args``.

    Raises TvmbuildError if a file cannot be read, or if an input is missing.
    """
    inputs = {name: read_array_file(path) for name, path in args.files}
    read_others(info, inputs)
    return {"score": args.score, "overlap": args.overlap, "inputs": inputs}


def show_json(results: Results) -> str:
    """Return results as JSON: a list, or a list for each kind if the package makes several."""
    kinds = results.as_dict()
    return json.dumps(kinds if len(kinds) > 1 else next(iter(kinds.values())))


def run_picture(session: Session, picture: Image.Image, wishes: Mapping[str, Any]) -> Results:
    """Return the results in a picture: as a frame where the package takes one of its size, else as any picture."""
    for encoding, (mode, order) in _ORDERS.items():
        frame = _find_sized(session.info, encoding, picture.height, picture.width)
        if frame is not None:
            pixels = np.asarray(picture.convert(mode))[:, :, list(order)]
            return _as_results(session.run_frame(_lay_out(frame, pixels), encoding, **wishes))
    return session.run_picture(picture, **wishes)


def _find_sized(info: PackageInfo, encoding: Encoding, height: int, width: int) -> Frame | None:
    """Return the first frame of the package that has this encoding and size, or None if it has none."""
    wanted = (encoding, height, width)
    return next((each for each in info.frames if (each.encoding, each.height, each.width) == wanted), None)


def _lay_out(frame: Frame, pixels: np.ndarray) -> np.ndarray:
    """Return pixels in a frame's order of channels as its bytes, with its gaps between rows."""
    if frame.stride is None:
        return np.ascontiguousarray(pixels)
    data = np.zeros((frame.height, frame.pitch), np.uint8)
    data[:, : frame.row_bytes] = pixels.reshape(frame.height, frame.row_bytes)
    return data.reshape(frame.shape)


def run_pixels(session: Session, pixels: np.ndarray, wishes: Mapping[str, Any]) -> Results:
    """Return the results in blue, green and red pixels, without a conversion if the package takes them."""
    height, width = pixels.shape[:2]
    frame = _find_sized(session.info, "bgr8", height, width)
    if frame is None:
        return run_picture(session, Image.fromarray(pixels[:, :, ::-1]), wishes)
    return _as_results(session.run_frame(_lay_out(frame, pixels), "bgr8", **wishes))


def explain_preparation(info: PackageInfo, height: int, width: int) -> str | None:
    """Return why frames of this size are prepared as pictures, or None if the package takes their pixels."""
    if any(_find_sized(info, encoding, height, width) for encoding in _ORDERS):
        return None
    return (
        f"{info.model} takes no frame of {height} by {width} pixels in {', '.join(_ORDERS)}, so each is prepared as "
        f"a picture, on the CPU by Pillow; `frame: {{size: [{height}, {width}], encoding: bgr8}}` is faster"
    )


def _as_results(found: Results | dict[str, np.ndarray]) -> Results:
    """Return the results of a package with `postprocess`."""
    if isinstance(found, dict):
        raise TypeError("a package with `postprocess` returned its outputs")
    return found


def _save(picture: Image.Image, path: Path) -> None:
    try:
        with publish(path) as temporary:
            picture.save(temporary, Image.registered_extensions()[path.suffix.lower()])
    except (OSError, KeyError, ValueError) as error:
        raise TvmbuildError(f"{path} cannot be written as a picture: {error}", _PICTURES) from error
