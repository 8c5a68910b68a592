"""Time the way from a frame to the result on a card, by where the frame's bytes are.

python benchmarks/frames_on_card.py PACKAGE.tar [PACKAGE.tar …] [--picture FILE] [--repeat 300]

A package takes a frame in bgr8. Prints milliseconds, medians of calls in turns: the network, with its input and outputs
on the card; and `run_frame` with the bytes on the card, in page-locked memory (`Session.empty_frame`), and in
ordinary memory. TVM's compiler is not needed, only its runtime.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

import tvmbuild
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.runtime.tensors import place


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path, nargs="+", metavar="PACKAGE.tar")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--repeat", type=int, default=300)
    args = parser.parse_args()
    print("| package | network alone | frame on the card | page-locked | ordinary memory |\n|---|---|---|---|---|")
    for path in args.packages:
        with tvmbuild.load(path) as session:
            times = measure(list_ways(session, args.picture), args.repeat)
        print(f"| {path.stem} | {' | '.join(f'{each:.3f}' for each in times)} |", flush=True)


def list_ways(session: Session, picture: Path | None) -> list[Callable[[], object]]:
    """Return the calls that are timed, in the order of the table."""
    number = next(i for i, frame in enumerate(session.info.frames) if frame.encoding == "bgr8")
    locked = session.empty_frame(number)
    locked[...] = draw(locked.shape, picture)
    ordinary = locked.copy()
    there = place("frame", ordinary, session._device, {})  # noqa: SLF001 - no user's call copies a frame only
    network = session.bind({session.inputs[0].name: session.prepare_frame(locked, "bgr8")})
    return [network, *(lambda frame=frame: session.run_frame(frame, "bgr8") for frame in (there, locked, ordinary))]


def draw(shape: tuple[int, ...], picture: Path | None) -> np.ndarray:
    """Return a picture as blue, green and red bytes of this shape, or noise without one."""
    if picture is None:
        return np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    scaled = Image.open(picture).convert("RGB").resize((shape[1], shape[0]))
    return np.asarray(scaled)[:, :, ::-1]


def measure(ways: list[Callable[[], object]], repeat: int) -> list[float]:
    """Return the median of each way's calls, in milliseconds. The ways take turns."""
    samples: list[list[float]] = [[] for _ in ways]
    for turn in range(repeat + 30):
        for way, taken in zip(ways, samples, strict=True):
            begin = time.perf_counter()
            way()
            if turn >= 30:  # the first calls warm up
                taken.append((time.perf_counter() - begin) * 1e3)
    return [float(np.median(each)) for each in samples]


if __name__ == "__main__":
    main()
