"""The arguments of a package's functions beside ``main``: a frame's bytes, the other inputs, outputs and a geometry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.counts import cut_outputs, fill_outputs
from tvmbuild.package.frames import find_frame, find_geometry, frame_entry, list_others
from tvmbuild.package.inputs import check_inputs, check_outputs
from tvmbuild.package.metadata import ModelInputs, PackageInfo
from tvmbuild.package.preprocess import find_fit, find_rules, find_sizes
from tvmbuild.package.result_arrays import Placed, make_thresholds, read_results
from tvmbuild.package.runtime.tensors import read_array

if TYPE_CHECKING:
    from PIL import Image

    from tvmbuild.package.results import Results

_FAR = np.finfo(np.float32).max
_OWN = (0, 0, 1, 1, _FAR, _FAR)
"""The geometry of the network's input itself."""


def read_frame(info: PackageInfo, frame: Any, encoding: str | None) -> tuple[int, Any]:
    """Return the number of the package's frame that fits, and the bytes as an array or tensor."""
    value = read_array("frame", frame)
    if str(value.dtype) != "uint8":
        raise TvmbuildError(f"a frame is uint8, got {value.dtype}", "give the camera's bytes")
    return find_frame(info.frames, tuple(value.shape), encoding, info.model), value


def find_shape(info: PackageInfo, number: int) -> Sequence[int]:
    """Return the shape of a frame's bytes, by its number in `frames` of ``info``.

    Raises TvmbuildError if the package has no such frame.
    """
    if not isinstance(number, int | np.integer):
        raise TvmbuildError(f"a frame has a number in `metadata.frames`, got {number!r}", "give its number")
    if not 0 <= number < len(info.frames):
        raise TvmbuildError(f"{info.model} has no frame number {number}; it has {len(info.frames)}")
    return info.frames[number].shape


def read_others(info: PackageInfo, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the inputs beside the picture, in the package's order. Raises TvmbuildError if they do not fit."""
    others = list_others(info)
    arrays = {name: read_array(name, value) for name, value in (inputs or {}).items()}
    missing = [each.name for each in others if each.name not in arrays]
    if missing and not arrays.keys() - {each.name for each in others}:
        raise TvmbuildError(
            f"{info.model} needs the inputs {', '.join(missing)} beside the picture",
            "give them by name in `inputs=`, or fix them with `value` in models.yaml and build it again",
        )
    check_inputs(ModelInputs(info.model, others), arrays)
    return {each.name: arrays[each.name] for each in others}


@dataclass(frozen=True)
class FrameOptions:
    """The arguments of `Session.run_frame` beside the frame."""

    encoding: str | None = None
    inputs: Mapping[str, Any] | None = None
    score: float | None = None
    overlap: float | None = None


def read_call(info: PackageInfo, frame: Any, options: FrameOptions) -> tuple[str, dict[str, Any]]:
    """Return the name of the function that takes a frame, and its arguments."""
    number, value = read_frame(info, frame, options.encoding)
    thresholds = make_thresholds(info.postprocess, options.score, options.overlap)
    others = read_others(info, options.inputs)
    return frame_entry(number), {"frame": value, **prefix("thresholds", thresholds), **prefix("input", others)}


def read_arrays(info: PackageInfo, arrays: list[np.ndarray]) -> Results | dict[str, np.ndarray]:
    """Return the result of `Session.run_frame`, from the arrays of the function that takes a frame."""
    if not info.postprocess:
        return cut_outputs(info.outputs, arrays)
    return read_results(info, Placed(arrays))


def read_geometry(geometry: np.ndarray | None) -> np.ndarray:
    """Return a geometry as the function takes it; None stands for that of the network's input."""
    return np.asarray(_OWN if geometry is None else geometry, np.float32).reshape(len(_OWN))


def read_outputs(info: PackageInfo, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of ``main`` as the function takes them. Raises TvmbuildError if they do not fit."""
    named = {name: read_array(name, value) for name, value in fill_outputs(info.outputs, outputs).items()}
    check_outputs(info, named)
    return {each.name: named[each.name] for each in info.outputs}


def place_picture(info: PackageInfo, picture: Image.Image) -> tuple[str, np.ndarray]:
    """Return the name of the input that a picture becomes, and the geometry of the picture in it."""
    rules, tensor = find_rules(info)
    height, width, _ = find_sizes(info, rules, tensor)
    return tensor.name, find_geometry(find_fit(rules, picture.size, (width, height)), picture.size)


def prefix(word: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays by prefixed names, because an input may have the name of a frame or threshold."""
    return {f"{word} {name}": value for name, value in arrays.items()}
