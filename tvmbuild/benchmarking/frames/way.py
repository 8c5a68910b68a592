"""The way from a frame to the result, as a package's metadata state it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import Postprocess
from tvmbuild.base.specs import Preprocess
from tvmbuild.package.frames import find_frame_geometry
from tvmbuild.package.metadata import PackageInfo, TensorInfo
from tvmbuild.package.preprocess import Fit, find_fit, find_rules, find_sizes

_FAR = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Input:
    """The network's input, as a frame becomes one."""

    rules: Preprocess
    tensor: TensorInfo
    height: int
    width: int
    channels: int

    def find_fit(self, frame: Frame) -> Fit:
        """Return the place of a frame in the input."""
        return find_fit(self.rules, (frame.used.width, frame.used.height), (self.width, self.height))


def find_input(info: PackageInfo) -> Input:
    """Return the input of a package that takes frames. Raises TvmbuildError if it takes none."""
    rules, tensor = find_rules(info)
    return Input(rules, tensor, *find_sizes(info, rules, tensor))


@dataclass(frozen=True)
class Decoding:
    """The meaning of a network's outputs: the result that is asked for, and where its boxes lie."""

    asked: Postprocess
    outputs: tuple[str, ...]
    """The names of all outputs, in the network's order."""
    height: int
    width: int
    """The size of the network's input in pixels, 0 if it is no picture."""
    geometry: np.ndarray
    """The numbers of `package.frames.find_frame_geometry`, float64."""
    labels: tuple[str, ...] | None = None


def find_decoding(info: PackageInfo, frame: Frame | None = None) -> Decoding | None:
    """Return the meaning of a package's outputs, or None if it makes no result.

    The boxes are in the pixels of ``frame``; with None they are in the input's.
    """
    asked = info.postprocess
    if asked is None:
        return None
    names = tuple(each.name for each in info.outputs)
    height, width = _find_size(info)
    geometry = np.array([0, 0, 1, 1, _FAR, _FAR])
    if frame is not None:
        geometry = find_frame_geometry(frame, find_input(info).find_fit(frame)).astype(np.float64)
    return Decoding(asked, names, height, width, geometry, info.labels)


def _find_size(info: PackageInfo) -> tuple[int, int]:
    if info.preprocess is not None:
        found = find_input(info)
        return found.height, found.width
    shape = info.inputs[0].shape if info.inputs else ()
    if len(shape) != 4:
        return 0, 0
    return (shape[2], shape[3]) if shape[1] in (1, 3) else (shape[1], shape[2])
