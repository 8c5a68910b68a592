"""`tvmbuild run --frame`: the results in one frame, as lines, as JSON and drawn into the picture."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console

from tvmbuild.base.files import publish
from tvmbuild.base.frame_specs import Encoding
from tvmbuild.cli.arguments import positive
from tvmbuild.cli.run.results import print_results
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.drawing import can_draw, draw_results
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


def add_frame_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments about frames."""
    parser.add_argument(
        "--frame",
        type=Path,
        metavar="FILE",
        help="a picture, or an .npy with a camera's bytes: print the results in it",
    )
    parser.add_argument(
        "--camera", metavar="SOURCE", help="/dev/video0 or a video file: results in each frame, and frames a second"
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
    is_picture = args.frame.suffix.lower() != ".npy"
    if args.draw and not is_picture:
        raise TvmbuildError("--draw needs a picture, not an .npy", "leave --draw out")
    if is_picture and args.encoding:
        raise TvmbuildError("--encoding is for the bytes in an .npy", "leave --encoding out")
    wishes = read_wishes(info, args)
    picture = open_picture(args.frame) if is_picture else None
    with Session(Path(args.package), args.threads) as session:
        if picture is not None:
            results = run_picture(session, picture, wishes)
        else:
            results = _as_results(session.run_frame(read_array_file(args.frame), args.encoding, **wishes))
    if args.json:
        print(show_json(results))
    else:
        print_results(console, info, results)
    if args.draw and picture is not None:
        if not all(map(can_draw, results)):
            raise TvmbuildError("a vector cannot be drawn", "leave --draw out")
        _save(draw_results(picture, results), args.draw)


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
        shape = (picture.height, picture.width, len(order))
        if any((each.encoding, each.shape) == (encoding, shape) for each in session.info.frames):
            pixels = np.ascontiguousarray(np.asarray(picture.convert(mode))[:, :, list(order)])
            return _as_results(session.run_frame(pixels, encoding, **wishes))
    return session.run_picture(picture, **wishes)


def run_pixels(session: Session, pixels: np.ndarray, wishes: Mapping[str, Any]) -> Results:
    """Return the results in blue, green and red pixels, without a conversion if the package takes them."""
    if any((each.encoding, each.shape) == ("bgr8", pixels.shape) for each in session.info.frames):
        return _as_results(session.run_frame(pixels, "bgr8", **wishes))
    return run_picture(session, Image.fromarray(pixels[:, :, ::-1]), wishes)


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
        raise TvmbuildError(f"{path} cannot be written as a picture: {error}", "name a .png or a .jpg") from error
