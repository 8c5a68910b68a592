"""The usual way from a frame to the result: OpenCV, ONNX Runtime and NumPy, as in the networks' own repositories.

It needs `cv2`, which tvmbuild does not install.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
from PIL import Image

from tvmbuild.base.frame_specs import Encoding, Frame
from tvmbuild.base.postprocess_specs import kind_of
from tvmbuild.benchmarking.frames.references import find_reference
from tvmbuild.benchmarking.frames.usual_results import FINDERS, Finder
from tvmbuild.benchmarking.frames.way import Decoding, Input, find_input, list_decodings
from tvmbuild.devices.result_fields import list_fields
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.colors import remove_gaps
from tvmbuild.package.frames import list_others
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.result_arrays import make_thresholds
from tvmbuild.package.results import Results

CONVERSIONS: dict[Encoding, tuple[int | None, int | None, int | None]] = {
    "bgr8": (None, cv2.COLOR_BGR2RGB, cv2.COLOR_BGR2GRAY),
    "rgb8": (cv2.COLOR_RGB2BGR, None, cv2.COLOR_RGB2GRAY),
    "bgra8": (cv2.COLOR_BGRA2BGR, cv2.COLOR_BGRA2RGB, cv2.COLOR_BGRA2GRAY),
    "rgba8": (cv2.COLOR_RGBA2BGR, cv2.COLOR_RGBA2RGB, cv2.COLOR_RGBA2GRAY),
    "mono8": (cv2.COLOR_GRAY2BGR, cv2.COLOR_GRAY2RGB, None),
    "yuyv": (cv2.COLOR_YUV2BGR_YUYV, cv2.COLOR_YUV2RGB_YUYV, cv2.COLOR_YUV2GRAY_YUYV),
    "uyvy": (cv2.COLOR_YUV2BGR_UYVY, cv2.COLOR_YUV2RGB_UYVY, cv2.COLOR_YUV2GRAY_UYVY),
    "nv12": (cv2.COLOR_YUV2BGR_NV12, cv2.COLOR_YUV2RGB_NV12, cv2.COLOR_YUV2GRAY_NV12),
    "nv21": (cv2.COLOR_YUV2BGR_NV21, cv2.COLOR_YUV2RGB_NV21, cv2.COLOR_YUV2GRAY_NV21),
    "i420": (cv2.COLOR_YUV2BGR_I420, cv2.COLOR_YUV2RGB_I420, cv2.COLOR_YUV2GRAY_I420),
    "bayer_rggb8": (cv2.COLOR_BayerRGGB2BGR, cv2.COLOR_BayerRGGB2RGB, cv2.COLOR_BayerRGGB2GRAY),
    "bayer_bggr8": (cv2.COLOR_BayerBGGR2BGR, cv2.COLOR_BayerBGGR2RGB, cv2.COLOR_BayerBGGR2GRAY),
    "bayer_gbrg8": (cv2.COLOR_BayerGBRG2BGR, cv2.COLOR_BayerGBRG2RGB, cv2.COLOR_BayerGBRG2GRAY),
    "bayer_grbg8": (cv2.COLOR_BayerGRBG2BGR, cv2.COLOR_BayerGRBG2RGB, cv2.COLOR_BayerGRBG2GRAY),
}
"""Encoding → OpenCV's conversions to BGR, RGB and grey. None: no conversion is needed."""
_COLORS = ("bgr", "rgb", "gray")
_INTERPOLATIONS = {"bilinear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA, "nearest": cv2.INTER_NEAREST}
Outputs = Mapping[str, np.ndarray]


def prepare(frame: Frame, data: np.ndarray, into: Input) -> np.ndarray:
    """Return the network's input.

    Frames with ``antialias`` are resized by Pillow, as torchvision and timm do it, because OpenCV has no such filter.
    """
    rules, fit = into.rules, into.find_fit(frame)
    code = CONVERSIONS[frame.encoding][_COLORS.index(rules.color)]
    picture = _convert(frame, data, code)
    picture = _resize(picture, (fit.width, fit.height), frame)
    if rules.resize == "crop":
        picture = picture[-fit.top : into.height - fit.top, -fit.left : into.width - fit.left]
    elif rules.resize == "letterbox":
        below, right = into.height - fit.height - fit.top, into.width - fit.width - fit.left
        borders = (fit.top, below, fit.left, right)
        picture = cv2.copyMakeBorder(picture, *borders, cv2.BORDER_CONSTANT, value=(rules.fill,) * 3)
    picture = picture.reshape(into.height, into.width, into.channels)
    dtype = np.dtype(into.tensor.dtype)
    ordered = picture.transpose(2, 0, 1) if rules.layout == "NCHW" else picture
    values = np.ascontiguousarray(ordered, np.float32)
    shape = (-1, 1, 1) if rules.layout == "NCHW" else (-1,)
    if rules.scale != 1:
        values *= np.float32(rules.scale)
    if rules.mean:
        values -= np.array(rules.mean, np.float32).reshape(shape)
    if rules.std:
        values /= np.array(rules.std, np.float32).reshape(shape)
    if dtype.kind in "iu":
        values = np.rint(values)
    return values.astype(dtype, copy=False).reshape(into.tensor.shape)


def _convert(frame: Frame, data: np.ndarray, code: int | None) -> np.ndarray:
    """Return the used part of a frame in another order of colours."""
    if frame.stride is not None:
        data = remove_gaps(frame, data)
    picture = data if code is None else cv2.cvtColor(data, code)
    part = frame.used
    return picture[part.top : part.top + part.height, part.left : part.left + part.width]


def _resize(picture: np.ndarray, size: tuple[int, int], frame: Frame) -> np.ndarray:
    if frame.interpolation == "antialias":
        return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR))
    return np.asarray(cv2.resize(picture, size, interpolation=_INTERPOLATIONS[frame.interpolation]))


@dataclass(frozen=True)
class Setup:
    """The usual way for one package: its network, and the ways to prepare a frame and to decode the outputs."""

    info: PackageInfo
    model: Path
    """The ONNX file."""
    threads: int
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The reference's inputs; only those beside the picture are used."""


class OpenCvWay:
    """The usual way, with frames that are bound to it. It is called as `TvmFrames` is."""

    on_card = False

    def __init__(self, setup: Setup, frames: Sequence[np.ndarray]) -> None:
        cv2.setNumThreads(setup.threads)
        self.info, self.frames = setup.info, list(frames)
        self.input = find_input(setup.info)
        self.session = open_network(setup.model, setup.threads)
        self.others = {each.name: setup.inputs[each.name] for each in list_others(setup.info)}
        self.names = [each.name for each in self.session.get_outputs()]
        self.decodings = [list_decodings(self.info, frame) for frame in self.info.frames]
        self.finders = [_find_finder(each) for each in self.decodings[0]]
        self.chosen: tuple[int, float | None, float | None] = (0, None, None)

    def choose(self, number: int, score: float | None, overlap: float | None) -> None:
        """Choose the frame and the thresholds of `call` and `list_parts`."""
        self.chosen = (number, score, overlap)

    def compute(self, number: int) -> dict[str, np.ndarray]:
        """Return the input that is made from a frame, and the network's outputs for it."""
        prepared = self.prepare(number)
        return {"input": prepared, **{f"output:{name}": value for name, value in self.run(prepared).items()}}

    def find(self, number: int, score: float | None, overlap: float | None) -> dict[str, list[dict[str, Any]]]:
        """Return the results in a frame, those of each kind as maps of their fields."""
        return list_fields(self.decode(number, self.run(self.prepare(number)), score, overlap))

    def call(self) -> object:
        """Make the result of the chosen frame."""
        number, score, overlap = self.chosen
        outputs = self.run(self.prepare(number))
        return self.decode(number, outputs, score, overlap) if self.info.postprocess else outputs

    def list_parts(self) -> Mapping[str, Callable[[], object]]:
        """Return name of a part → a function that does this part only."""
        number, score, overlap = self.chosen
        prepared = self.prepare(number)
        parts: dict[str, Callable[[], object]] = {
            "prepare": lambda: self.prepare(number),
            "network": lambda: self.run(prepared),
        }
        if self.info.postprocess:
            outputs = self.run(prepared)
            parts["result"] = lambda: self.decode(number, outputs, score, overlap)
        return parts

    def prepare(self, number: int) -> np.ndarray:
        """Return the network's input for a frame."""
        return prepare(self.info.frames[number], self.frames[number], self.input)

    def run(self, prepared: np.ndarray) -> dict[str, np.ndarray]:
        """Return the network's outputs."""
        found = self.session.run(None, {self.input.tensor.name: prepared, **self.others})
        return dict(zip(self.names, found, strict=True))

    def decode(self, number: int, outputs: Outputs, score: float | None, overlap: float | None) -> Results:
        """Return the results in outputs."""
        limits = make_thresholds(self.info.postprocess, score, overlap)
        found = {}
        for decoding, finder in zip(self.decodings[number], self.finders, strict=True):
            found[decoding.name] = finder(decoding, outputs, *map(float, limits[decoding.name]))
        return Results(found)


def _find_finder(decoding: Decoding) -> Finder:
    kind = kind_of(decoding.asked)
    if kind not in FINDERS or find_reference(decoding) is None:
        raise TvmbuildError(f"there is no usual code yet that makes these results of the kind `{kind}`")
    return FINDERS[kind]


def open_network(model: Path, threads: int) -> onnxruntime.InferenceSession:
    """Return the ONNX file in ONNX Runtime, as its baseline is timed (`devices.onnxruntime_runner`)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
