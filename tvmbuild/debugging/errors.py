"""The error of a place, and the error that rounding alone causes there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tvmbuild.debugging.places import Places, Values, is_comparable
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.compare import widen
from tvmbuild.preparing.reference import open_onnx
from tvmbuild.preparing.rounding import shake_inputs

RUNS = 3
"""The number of runs that find the effect of rounding."""
_SMALLEST_WEIGHTS = 9
"""The least number of elements of a constant that is shaken: the scales of a Resize have fewer."""
_FLIPPED = 0.02
"""The share of whole numbers that rounding may change if they are decided by floats: indices, comparisons."""


@dataclass(frozen=True)
class Rounding:
    """The rounding of a precision. All figures are shares of a tensor's largest magnitude."""

    shake: float
    """The largest relative change of inputs and weights in the runs that find the effect of rounding."""
    least: float
    """The least effect of rounding on a tensor: the distance of two neighbours."""
    limit: float
    """The ratio of a right package's error to the effect of rounding. Sums in another order and Winograd need some."""


ROUNDINGS: Mapping[str, Rounding] = {
    "fp32": Rounding(1e-7, 6e-8, 32.0),
    "tf32": Rounding(5e-4, 5e-4, 16.0),
    "fp16": Rounding(5e-4, 5e-4, 16.0),
    "bf16": Rounding(4e-3, 4e-3, 16.0),
    "int8": Rounding(1e-6, 4e-3, 5.0),
}


def measure_error(got: np.ndarray, want: np.ndarray) -> float:
    """Return the largest difference over the largest magnitude; of whole numbers the share that differs.

    8-bit integers count as numbers. NaN and infinity equal themselves. The error is infinite if they are elsewhere,
    or if the shapes differ. If all of ``want`` is zero, the error is absolute.
    """
    if got.shape != want.shape:
        return math.inf
    if want.dtype.kind == "b" or (want.dtype.kind in "iu" and want.dtype.itemsize > 1):
        return float(np.mean(got != want))
    right, found = widen(want), widen(got)
    same = (found == right) | (np.isnan(found) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(found - right))
    if not np.isfinite(difference).all():
        return math.inf
    largest = float(np.max(np.abs(right), where=np.isfinite(right), initial=0.0))
    return float(difference.max(initial=0.0)) / (largest or 1.0)


def compute_places(places: Places, inputs: Values, what: str) -> dict[str, np.ndarray]:
    """Return the original's numbers at all places, by ONNX Runtime without optimisation, and the inputs."""
    return {**inputs, **open_onnx(places.marked, what)(inputs)}


def measure_rounding(places: Places, values: Values, rounding: Rounding, what: str) -> dict[str, float]:
    """Return the error at each place if inputs and weights change by a rounding error, the largest of `RUNS` runs."""
    random = np.random.RandomState(0)
    marked = onnx.load_model_from_string(places.marked)
    inputs = {name: values[name] for name in places.inputs}
    weights = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in marked.graph.initializer
        if tensor.data_type in {TensorProto.FLOAT, TensorProto.FLOAT16}
    }
    weights = {name: value for name, value in weights.items() if value.size >= _SMALLEST_WEIGHTS}
    found = {name: _find_least(places, name, values, rounding) for name in places.producers if name in values}
    found = {name: least for name, least in found.items() if is_comparable(values[name])}
    for _ in range(RUNS):
        shaken = shake_inputs(weights, rounding.shake, random)
        for tensor in marked.graph.initializer:
            if tensor.name in shaken:
                tensor.CopyFrom(numpy_helper.from_array(shaken[tensor.name], tensor.name))
        try:
            moved = open_onnx(marked.SerializeToString(), what)(shake_inputs(inputs, rounding.shake, random))
        except TvmbuildError:  # a shape that depends on data is another one now
            continue
        found = {name: max(before, measure_error(moved[name], values[name])) for name, before in found.items()}
    return found


def _find_least(places: Places, name: str, values: Values, rounding: Rounding) -> float:
    read = places.nodes[places.producers[name]].input
    is_decided = values[name].dtype.kind in "iub" and any(
        each in values and values[each].dtype.kind == "f" for each in read
    )
    return max(rounding.least, _FLIPPED / rounding.limit) if is_decided else rounding.least
