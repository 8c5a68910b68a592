"""The way from a frame to the result, as a package's metadata state it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tvmbuild.base.frame_specs import Crop, Frame
from tvmbuild.base.postprocess_specs import Postprocess, is_in_input, name_results
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.package.frames import find_frame_geometry
from tvmbuild.package.metadata import PackageInfo, TensorInfo
from tvmbuild.package.preprocess import Fit, find_fit, find_rules, find_sizes
from tvmbuild.package.result_arrays import find_labels

_TIE = 1e-6
"""The distance of a place from the border of two pixels that rounding can make, in pixels."""
_FAR = float(np.finfo(np.float32).max)
_OWN = np.array([0, 0, 1, 1, _FAR, _FAR])
"""The geometry of the input itself."""


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
    """The decoding of a network's outputs into one of the configured results."""

    asked: Postprocess
    outputs: tuple[str, ...]
    """The names of all outputs, in the network's order."""
    height: int
    width: int
    """The size of the network's input in pixels, 0 if it is not a picture."""
    geometry: np.ndarray
    """The numbers of `package.frames.find_frame_geometry`, float64."""
    labels: tuple[str, ...] | None = None
    part: Crop | None = None
    """The part of the frame that is used; None means the input itself."""
    channels_last: bool = False
    """True if maps have their classes in the last dimension."""
    whole: tuple[str, ...] = ()
    """The names of the outputs of whole numbers."""
    name: str = ""
    """The name of the result (`name_results`)."""

    def find_output(self, outputs: Mapping[str, np.ndarray], place: int = 0) -> np.ndarray:
        """Return the output from which the result is made, or one of several."""
        return outputs[(self.asked.outputs or self.outputs)[place]]

    @property
    def has_classes(self) -> bool:
        """Return whether the first output has whole numbers: classes and no scores."""
        return (self.asked.outputs or self.outputs)[0] in self.whole

    @property
    def map_part(self) -> Crop | None:
        """The part of the frame that a map shows; None means the input itself."""
        return None if is_in_input(self.asked) else self.part

    @property
    def map_geometry(self) -> np.ndarray:
        """The geometry of a map's pixels: that of the frame, or of the input itself."""
        return _OWN if is_in_input(self.asked) else self.geometry

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a map: those of the frame, or of the input."""
        if self.map_part is None:
            return self.height, self.width
        return int(self.geometry[5]), int(self.geometry[4])

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The results of `find_places` for rows and columns."""
        return self.find_places(0), self.find_places(1)

    @cached_property
    def seen(self) -> tuple[slice, slice]:
        """The rows and columns of a map that the network sees."""
        seen = [np.flatnonzero(~np.isnan(places)) for places in self.places]
        rows, columns = (slice(int(each[0]), int(each[-1]) + 1) if len(each) else slice(0, 0) for each in seen)
        return rows, columns

    def find_places(self, axis: int) -> np.ndarray:
        """Return the centres of a map's rows (axis 0) or columns in the input's pixels, NaN if it sees none."""
        numbers, extent = np.arange(self.size[axis]), (self.height, self.width)[axis]
        places = self._list_centres(axis)
        part = self.map_part or Crop(0, 0, *self.size)
        begin, count = ((part.top, part.height), (part.left, part.width))[axis]
        seen = (numbers >= begin) & (numbers < begin + count) & (places >= 0) & (places < extent)
        return np.where(seen, places, np.nan)

    def find_ties(self, axis: int, pixels: int = 1) -> np.ndarray:
        """Return whether a map's rows (axis 0) or columns lie at the border of pixels of the input.

        The input is divided into ``pixels``, as an output may be. Rounding decides on which side a tie lies.
        """
        at = self._list_centres(axis) / (self.height, self.width)[axis] * pixels
        nearest = np.clip(np.rint(at), 0, pixels)
        ties: np.ndarray = np.abs(at - nearest) < _TIE
        return ties

    def _list_centres(self, axis: int) -> np.ndarray:
        left, top, across, down = self.map_geometry[:4]
        offset, scale = ((top, down), (left, across))[axis]
        centres: np.ndarray = (np.arange(self.size[axis]) + 0.5) / scale + offset
        return centres


def list_decodings(info: PackageInfo, frame: Frame | None = None) -> tuple[Decoding, ...]:
    """Return how the package's outputs are decoded into each of its results.

    The boxes are in the pixels of ``frame``; with None they are in the input's.
    """
    names = tuple(each.name for each in info.outputs)
    height, width = _find_size(info)
    geometry = _OWN
    if frame is not None:
        geometry = find_frame_geometry(frame, find_input(info).find_fit(frame), np.float64)
    last = info.preprocess is not None and info.preprocess.layout == "NHWC"
    whole = tuple(each.name for each in info.outputs if "float" not in each.dtype)
    part = None if frame is None else frame.used
    return tuple(
        Decoding(each, names, height, width, geometry, find_labels(info, each), part, last, whole, name)
        for name, each in zip(name_results(info.postprocess), info.postprocess, strict=True)
    )


def _find_size(info: PackageInfo) -> tuple[int, int]:
    if info.preprocess is not None:
        found = find_input(info)
        return found.height, found.width
    shape = info.inputs[0].shape if info.inputs else ()
    if len(shape) != 4:
        return 0, 0
    return (shape[2], shape[3]) if shape[1] in (1, 3) else (shape[1], shape[2])
