"""Time the way from a camera's frame to boxes: tvmbuild's `run_frame` against OpenCV, ONNX Runtime and NumPy.

python benchmarks/frames.py [--picture FILE] [--size 1080 1920] [--threads 2 1] [--cpu CPU] [--rounds 20]

Both ways take the same bytes of a frame in five encodings, letterbox it bilinearly, run the network (tvmbuild's by
rule, without records) and return boxes in the frame's pixels; one process times them in turns. The peer's steps are
those of the networks' own repositories: `cv2.cvtColor`, `cv2.resize`, `cv2.copyMakeBorder`, the layout and the decoding
in NumPy, suppression by `cv2.dnn.NMSBoxes`, class by class. Prints milliseconds, the three parts of each way, ratios,
and how far the boxes are apart.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import tvm
from network_files import find_network
from turns import time_in_turns

from tvmbuild.base.frame_specs import Encoding, Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Boxes
from tvmbuild.base.specs import Preprocess
from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.preprocess import find_fit
from tvmbuild.package.results import Box
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.runtime.tensors import empty_array

SCORE, OVERLAP = 0.3, 0.45
REST_S = 0.05
"""The pause between turns. The threads of ONNX Runtime and OpenCV spin for a while after a call."""


@dataclass(frozen=True)
class Detector:
    """A detector: its form, and how a picture becomes its input."""

    network: str
    form: str
    rules: Preprocess


DETECTORS = (
    Detector("yolov3_tiny", "yolov5", Preprocess(resize="letterbox")),
    Detector("yolox_nano", "yolox", Preprocess(resize="letterbox", color="bgr", scale=1.0)),
)
ENCODINGS: dict[Encoding, tuple[int | None, int | None]] = {
    "bgr8": (None, None),
    "rgb8": (cv2.COLOR_RGB2BGR, cv2.COLOR_BGR2RGB),
    "rgba8": (cv2.COLOR_RGBA2BGR, cv2.COLOR_BGR2RGBA),
    "nv12": (cv2.COLOR_YUV2BGR_NV12, cv2.COLOR_BGR2YUV_I420),
    "yuyv": (cv2.COLOR_YUV2BGR_YUYV, cv2.COLOR_BGR2YUV_YUYV),
}
"""Encoding → OpenCV's conversion from it, and to it (to I420 for nv12)."""


def main() -> int:
    """Print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent.parent / "examples/detect/astronaut.png")
    parser.add_argument("--size", type=int, nargs=2, default=(1080, 1920), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--threads", type=int, nargs="+", default=(2, 1))
    parser.add_argument("--cpu")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    height, width = args.size
    read = cv2.imread(str(args.picture))
    if read is None:
        sys.exit(f"{args.picture} is no picture")
    picture = fill(read, height, width)
    with tempfile.TemporaryDirectory() as folder:
        packages = {each.network: build(each, args.cpu, (height, width), Path(folder)) for each in DETECTORS}
        for threads in args.threads:
            compare(packages, picture, threads, args.rounds)
    return 0


def fill(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the picture scaled into a grey frame of this size."""
    scale = min(height / picture.shape[0], width / picture.shape[1])
    size = (round(picture.shape[1] * scale), round(picture.shape[0] * scale))
    frame = np.full((height, width, 3), 90, np.uint8)
    frame[: size[1], : size[0]] = cv2.resize(picture, size)
    return frame


def build(detector: Detector, cpu: str | None, size: tuple[int, int], folder: Path) -> Path:
    """Return the detector's package for this machine, by rule."""
    name = cpu or str(tvm.target.codegen.llvm_get_system_cpu())
    target = PackageTarget("here", "llvm", FrozenMap({"mcpu": name, "num-cores": 2}))
    frames = tuple(Frame(*size, each, "bilinear") for each in ENCODINGS)
    asked = Boxes(detector.form, score=SCORE, overlap=OVERLAP)
    options = BuildOptions(detector.network, preprocess=detector.rules, frames=frames, postprocess=asked)
    made = build_package(find_network(detector.network), target, options=options)
    path = folder / f"{detector.network}.tar"
    write_package(path, made)
    return path


def compare(packages: dict[str, Path], picture: np.ndarray, threads: int, rounds: int) -> None:
    """Print the table for a number of threads."""
    cv2.setNumThreads(threads)
    print(f"\n{threads} threads, frame {picture.shape[1]} x {picture.shape[0]}\n")
    parts_of = "frame, network, boxes"
    print(f"| network | encoding | tvmbuild ms | {parts_of} | peer ms | {parts_of} | ratio | apart |")
    print("|---" * 8 + "|")
    ratios = []
    for detector in DETECTORS:
        with Session(packages[detector.network], threads) as session:
            for encoding in ENCODINGS:
                ours, peer = Ours(session, encoding), Peer(detector, encoding, threads)
                data = encode(picture, encoding)
                calls = {**ours.list_calls(data), **peer.list_calls(data)}
                times = {
                    name: float(np.median(each.ms)) for name, each in time_in_turns(calls, rounds, 3, REST_S).items()
                }
                ratios.append(times["ours"] / times["peer"])
                parts = [
                    " ".join(f"{times[f'{way} {part}']:.2f}" for part in ("frame", "network", "boxes"))
                    for way in ("ours", "peer")
                ]
                apart = measure_distance(ours.run(data), peer.run(data))
                print(
                    f"| {detector.network} | {encoding} | {times['ours']:.2f} | {parts[0]} | {times['peer']:.2f} "
                    f"| {parts[1]} | {ratios[-1]:.2f} | {apart} |",
                    flush=True,
                )
    print(f"\ngeometric mean {geometric_mean(ratios):.2f}, largest {max(ratios):.2f}")


def encode(picture: np.ndarray, encoding: Encoding) -> np.ndarray:
    """Return the bytes of a picture (blue, green, red) in an encoding, in memory that needs no copy."""
    code = ENCODINGS[encoding][1]
    data = picture if code is None else cv2.cvtColor(picture, code)
    if encoding == "nv12":
        rows = picture.shape[0]
        blue, red = data[rows:].reshape(2, -1)
        data = np.concatenate([data[:rows].ravel(), np.stack([blue, red], axis=1).ravel()]).reshape(data.shape)
    aligned = empty_array(data.shape, "uint8")
    aligned[...] = data
    return aligned


Calls = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Ours:
    """tvmbuild's way: one call."""

    session: Session
    encoding: Encoding

    def run(self, data: np.ndarray) -> tuple[Box, ...]:
        """Return the boxes in a frame."""
        found = self.session.run_frame(data, self.encoding)
        return tuple(each for each in found if isinstance(each, Box))

    def list_calls(self, data: np.ndarray) -> Calls:
        """Return the whole way and its parts; the boxes' part is the rest, which no call does alone."""
        prepared = self.session.prepare_frame(data, self.encoding)
        inputs = {self.session.inputs[0].name: prepared}
        outputs = self.session.run_on_device(inputs)
        bound = self.session.bind(inputs)
        return {
            "ours": lambda: self.run(data),
            "ours frame": lambda: self.session.prepare_frame(data, self.encoding),
            "ours network": bound,
            "ours boxes": lambda: self.session.make_results(outputs),
        }


class Peer:
    """OpenCV, ONNX Runtime and NumPy."""

    def __init__(self, detector: Detector, encoding: Encoding, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(
            str(find_network(detector.network)), options, providers=["CPUExecutionProvider"]
        )
        (self.input,) = self.session.get_inputs()
        self.height, self.width = self.input.shape[2:]
        self.detector, self.code = detector, ENCODINGS[encoding][0]
        grids = [np.mgrid[: self.height // s, : self.width // s][::-1].reshape(2, -1).T for s in (8, 16, 32)]
        self.grid = np.concatenate(grids).astype(np.float32)
        self.strides = np.concatenate(
            [np.full((len(grid), 1), s, np.float32) for grid, s in zip(grids, (8, 16, 32), strict=True)]
        )

    def run(self, data: np.ndarray) -> tuple[Box, ...]:
        """Return the boxes in a frame."""
        picture = self.prepare(data)
        return self.decode(self.session.run(None, {self.input.name: picture})[0], self.sides(data))

    def list_calls(self, data: np.ndarray) -> Calls:
        """Return the whole way and its parts."""
        picture, sides = self.prepare(data), self.sides(data)
        (output,) = self.session.run(None, {self.input.name: picture})
        return {
            "peer": lambda: self.run(data),
            "peer frame": lambda: self.prepare(data),
            "peer network": lambda: self.session.run(None, {self.input.name: picture}),
            "peer boxes": lambda: self.decode(output, sides),
        }

    def sides(self, data: np.ndarray) -> tuple[int, int]:
        """Return width and height of the picture in a frame."""
        planes = data.ndim == 2
        return data.shape[1], data.shape[0] * 2 // 3 if planes else data.shape[0]

    def prepare(self, data: np.ndarray) -> np.ndarray:
        """Return the network's input, as `letterbox` and `preproc` of the networks' repositories make it."""
        picture = data if self.code is None else cv2.cvtColor(data, self.code)
        left, top, width, height = self.place(self.sides(data))
        resized = cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR)
        borders = (top, self.height - height - top, left, self.width - width - left)
        boxed = cv2.copyMakeBorder(resized, *borders, cv2.BORDER_CONSTANT, value=(114, 114, 114))
        if self.detector.rules.color == "rgb":
            boxed = boxed[:, :, ::-1]
        ordered = np.ascontiguousarray(boxed.transpose(2, 0, 1), np.float32)
        if self.detector.rules.scale != 1:
            ordered *= np.float32(self.detector.rules.scale)
        return ordered[None]

    def place(self, sides: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return left, top, width and height of the frame in the input."""
        fit = find_fit(self.detector.rules, sides, (self.width, self.height))
        return fit.left, fit.top, fit.width, fit.height

    def decode(self, output: np.ndarray, sides: tuple[int, int]) -> tuple[Box, ...]:
        """Return the boxes in an output."""
        rows = output[0]
        if self.detector.form == "yolox":
            centres = (rows[:, :2] + self.grid) * self.strides
            rows = np.concatenate([centres, np.exp(rows[:, 2:4]) * self.strides, rows[:, 4:]], axis=1)
        scores = rows[:, 4:5] * rows[:, 5:]
        classes, best = scores.argmax(axis=1), scores.max(axis=1)
        likely = best > SCORE
        rows, classes, best = rows[likely, :4], classes[likely], best[likely]
        left, top, width, height = self.place(sides)
        scale = np.array([sides[0] / width, sides[1] / height], np.float32)
        corners = (rows[:, :2] - rows[:, 2:] / 2 - (left, top)) * scale
        spans = rows[:, 2:] * scale
        if not len(rows):
            return ()
        boxes = np.concatenate([corners, spans], axis=1)
        kept = cv2.dnn.NMSBoxesBatched(boxes.tolist(), best.tolist(), classes.tolist(), SCORE, OVERLAP)
        places = np.asarray(kept).ravel().tolist()
        found = [
            Box(float(x), float(y), float(width), float(height), float(best[i]), int(classes[i]))
            for i, (x, y, width, height) in zip(places, boxes[places], strict=True)
        ]
        return tuple(sorted(found, key=lambda each: -each.score))


def measure_distance(ours: tuple[Box, ...], peer: tuple[Box, ...]) -> str:
    """Return how far two results are apart: the number of boxes, the largest distances in pixels and in score."""
    if [each.index for each in ours] != [each.index for each in peer]:
        return f"{len(ours)} and {len(peer)} boxes"
    score = max((abs(a.score - b.score) for a, b in zip(ours, peer, strict=True)), default=0)
    return f"{len(ours)} boxes, score {score:.1e}, " + f"{max_side(ours, peer):.2f} px"


def max_side(ours: tuple[Box, ...], peer: tuple[Box, ...]) -> float:
    """Return the largest distance between the right lower corners inside of the frame, in pixels."""
    ends = [
        (abs(a.x + a.width - b.x - b.width), abs(a.y + a.height - b.y - b.height))
        for a, b in zip(ours, peer, strict=True)
    ]
    return max((min(each) for each in ends), default=0.0)


if __name__ == "__main__":
    sys.exit(main())
