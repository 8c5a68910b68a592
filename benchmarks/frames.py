"""Time the way from a camera's frame to boxes: tvmbuild's `run_frame` against OpenCV, ONNX Runtime and NumPy.

python benchmarks/frames.py [NETWORK … | preparation] [--picture FILE] [--size 1080 1920] [--threads 2 1] [--cpu CPU]
    [--rounds 20] [--records CPU.tar.xz]

Both ways take the same bytes of a frame in five encodings, letterbox it bilinearly, run the network and return boxes
in the frame's pixels; one process times them in turns. tvmbuild's network is compiled by rule, or with records, for
example benchmarks/records/x86-64-v4.tar.xz. The peer's steps are those of the networks' own repositories
(`tvmbuild/benchmarking/frames/opencv.py`): `cv2.cvtColor`, `cv2.resize`,
`cv2.copyMakeBorder`, the layout and the decoding in NumPy, suppression by `cv2.dnn.NMSBoxes`, class by class.
Prints milliseconds, the three parts of each way, ratios, and how far the boxes are apart.
`preparation` times only the first part, the best of all rounds: letterboxed to 640 x 640, between 0 and 1, in NCHW.
yolo11n has random weights and needs the libraries of `benchmarks/networks/modern/networks.py`. Its score threshold is
one that a few dozen boxes of no meaning exceed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import tvm
from network_files import find_network
from onnx import TensorProto, helper
from turns import time_in_turns
from vs_peers import build_model, prepare, unpack

from tvmbuild.base.frame_specs import Encoding, Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Boxes
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.benchmarking.frames.agreement import describe_boxes
from tvmbuild.benchmarking.frames.opencv import OpenCvWay, Setup
from tvmbuild.benchmarking.frames.opencv import prepare as prepare_by_opencv
from tvmbuild.benchmarking.frames.results import PARTS
from tvmbuild.benchmarking.frames.way import find_input
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.devices.serve_frames import Frames as Way
from tvmbuild.devices.tvm_frames import TvmFrames
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.runtime.tensors import empty_array
from tvmbuild.records.schedule import NO_RECORDS, read_schedule

OVERLAP = 0.45
PREPARATION = "preparation"
SIDE = 640
"""The height and the width of the prepared picture."""
REST_S = 0.05
"""The pause between turns. The threads of ONNX Runtime and OpenCV spin for a while after a call."""


@dataclass(frozen=True)
class Detector:
    """A detector: its form, and how a picture becomes its input."""

    network: str
    form: str
    rules: Preprocess
    score: float = 0.3


DETECTORS = (
    Detector("yolov3_tiny", "yolov5", Preprocess(resize="letterbox")),
    Detector("yolox_nano", "yolox", Preprocess(resize="letterbox", color="bgr", scale=1.0)),
    Detector("yolo11n", "yolov8", Preprocess(resize="letterbox"), score=0.8),
)
ENCODINGS: dict[Encoding, int | None] = {
    "bgr8": None,
    "rgb8": cv2.COLOR_BGR2RGB,
    "rgba8": cv2.COLOR_BGR2RGBA,
    "nv12": cv2.COLOR_BGR2YUV_I420,
    "yuyv": cv2.COLOR_BGR2YUV_YUYV,
}
"""Encoding → OpenCV's conversion of a picture to it (to I420 for nv12)."""


def main() -> int:
    """Print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "networks",
        nargs="*",
        metavar="NETWORK",
        choices=[[], *(each.network for each in DETECTORS), PREPARATION],
        help=", ".join([*(each.network for each in DETECTORS), PREPARATION]),
    )
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent.parent / "examples/detect/astronaut.png")
    parser.add_argument("--size", type=int, nargs=2, default=(1080, 1920), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--threads", type=int, nargs="+", default=(2, 1))
    parser.add_argument("--cpu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--records", type=Path, help="a folder or an archive, named by the CPU that it is for")
    args = parser.parse_args()
    height, width = args.size
    read = cv2.imread(str(args.picture))
    if read is None:
        sys.exit(f"{args.picture} is no picture")
    picture = fill(read, height, width)
    with tempfile.TemporaryDirectory() as folder:
        packages = {}
        for each in DETECTORS:
            if not args.networks or each.network in args.networks:
                try:
                    packages[each] = build(each, args, (height, width), Path(folder))
                except TvmbuildError as error:
                    print(f"{each.network} is left out: {error.message}; {error.hint}", file=sys.stderr)
        for threads in args.threads:
            if packages:
                compare(packages, picture, threads, args.rounds)
        if not args.networks or PREPARATION in args.networks:
            package = build_preparation(args, (height, width), Path(folder))
            for threads in args.threads:
                compare_preparations(package, picture, threads, args.rounds)
    return 0


def fill(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the picture scaled into a grey frame of this size."""
    scale = min(height / picture.shape[0], width / picture.shape[1])
    size = (round(picture.shape[1] * scale), round(picture.shape[0] * scale))
    frame = np.full((height, width, 3), 90, np.uint8)
    frame[: size[1], : size[0]] = cv2.resize(picture, size)
    return frame


def build(detector: Detector, args: argparse.Namespace, size: tuple[int, int], folder: Path) -> Path:
    """Return the detector's package for this machine, by rule or with records."""
    model, schedule = find_network(detector.network), NO_RECORDS
    name = args.cpu or str(tvm.target.codegen.llvm_get_system_cpu())
    target = PackageTarget("here", "llvm", FrozenMap({"mcpu": name, "num-cores": 2}))
    if args.records:
        cpu = args.records.name.removesuffix(".tar.xz")
        root = folder / detector.network
        setting = prepare(root, cpu, unpack(args.records, root / "unpacked"), max(args.threads))
        files = build_model(model, setting)
        model, schedule = files["model"], read_schedule(files["schedule"])
        target = PackageTarget("here", "llvm", setting.attributes)
    frames = tuple(Frame(*size, each, "bilinear") for each in ENCODINGS)
    asked = Boxes(detector.form, score=detector.score, overlap=OVERLAP)
    options = BuildOptions(detector.network, preprocess=detector.rules, frames=frames, postprocess=(asked,))
    made = build_package(model, target, schedule, options)
    path = folder / f"{detector.network}.tar"
    write_package(path, made)
    return path


def build_preparation(args: argparse.Namespace, size: tuple[int, int], folder: Path) -> Path:
    """Return the package of a network of one reduction, whose frames are prepared as those of a detector."""
    picture = helper.make_tensor_value_info("picture", TensorProto.FLOAT, (1, 3, SIDE, SIDE))
    largest = helper.make_tensor_value_info("largest", TensorProto.FLOAT, (1, 3, 1, 1))
    graph = helper.make_graph(
        [helper.make_node("GlobalMaxPool", ["picture"], ["largest"])], "net", [picture], [largest]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    name = args.cpu or str(tvm.target.codegen.llvm_get_system_cpu())
    target = PackageTarget("here", "llvm", FrozenMap({"mcpu": name, "num-cores": 2}))
    frames = tuple(Frame(*size, each, "bilinear") for each in ENCODINGS)
    options = BuildOptions(PREPARATION, preprocess=Preprocess(resize="letterbox"), frames=frames)
    path = folder / f"{PREPARATION}.tar"
    write_package(path, build_package(model.SerializeToString(), target, options=options))
    return path


def compare_preparations(package: Path, picture: np.ndarray, threads: int, rounds: int) -> None:
    """Print the least times of preparing a frame, for a number of threads."""
    cv2.setNumThreads(threads)
    print(f"\n{threads} threads, frame {picture.shape[1]} x {picture.shape[0]} to {SIDE} x {SIDE}\n")
    print("| encoding | tvmbuild ms | OpenCV and NumPy ms | ratio | apart |")
    print("|---" * 5 + "|")
    with Session(package, threads) as session:
        into = find_input(session.info)
        for frame in session.info.frames:
            data = encode(picture, frame.encoding)
            calls: dict[str, Callable[[], np.ndarray]] = {
                "ours": partial(session.prepare_frame, data, frame.encoding),
                "peer": partial(prepare_by_opencv, frame, data, into),
            }
            apart = float(np.abs(calls["ours"]() - calls["peer"]()).max()) * 255
            least = {name: float(np.min(each.ms)) for name, each in time_in_turns(calls, rounds, 10, REST_S).items()}
            ratio = least["ours"] / least["peer"]
            print(f"| {frame.encoding} | {least['ours']:.2f} | {least['peer']:.2f} | {ratio:.2f} | {apart:.2f} bytes |")


def compare(packages: dict[Detector, Path], picture: np.ndarray, threads: int, rounds: int) -> None:
    """Print the table for a number of threads."""
    print(f"\n{threads} threads, frame {picture.shape[1]} x {picture.shape[0]}\n")
    parts_of = "frame, network, boxes"
    print(f"| network | encoding | tvmbuild ms | {parts_of} | peer ms | {parts_of} | ratio | apart |")
    print("|---" * 8 + "|")
    ratios = []
    frames = [encode(picture, encoding) for encoding in ENCODINGS]
    for detector, package in packages.items():
        with Session(package, threads) as session:
            setup = Setup(session.info, find_network(detector.network), threads)
            ways: dict[str, Way] = {"ours": TvmFrames(session, frames), "peer": OpenCvWay(setup, frames)}
            for number, encoding in enumerate(ENCODINGS):
                times = time_ways(ways, number, rounds)
                ratios.append(times["ours"] / times["peer"])
                parts = [" ".join(f"{times[f'{way} {part}']:.2f}" for part in PARTS) for way in ways]
                apart = describe_boxes(*(way.find(number, None, None)["boxes"] for way in ways.values()))
                print(
                    f"| {detector.network} | {encoding} | {times['ours']:.2f} | {parts[0]} | {times['peer']:.2f} "
                    f"| {parts[1]} | {ratios[-1]:.2f} | {apart} |",
                    flush=True,
                )
    print(f"\ngeometric mean {geometric_mean(ratios):.2f}, largest {max(ratios):.2f}")


def time_ways(ways: dict[str, Way], number: int, rounds: int) -> dict[str, float]:
    """Return the median time in ms of each way and of its parts."""
    calls: dict[str, Callable[[], object]] = {}
    for name, way in ways.items():
        way.choose(number, None, None)
        calls[name] = way.call
        calls |= {f"{name} {part}": call for part, call in way.list_parts().items()}
    taken = time_in_turns(calls, rounds, 3, REST_S)
    return {name: float(np.median(each.ms)) for name, each in taken.items()}


def encode(picture: np.ndarray, encoding: Encoding) -> np.ndarray:
    """Return the bytes of a picture (blue, green, red) in an encoding, in memory that needs no copy."""
    code = ENCODINGS[encoding]
    data = picture if code is None else cv2.cvtColor(picture, code)
    if encoding == "nv12":
        rows = picture.shape[0]
        blue, red = data[rows:].reshape(2, -1)
        data = np.concatenate([data[:rows].ravel(), np.stack([blue, red], axis=1).ravel()]).reshape(data.shape)
    aligned = empty_array(data.shape, "uint8")
    aligned[...] = data
    return aligned


if __name__ == "__main__":
    sys.exit(main())
