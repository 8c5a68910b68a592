"""The effect of rounding on a model's outputs: how far equally right numbers may be apart.

Two right implementations add up in different orders. Most networks damp the difference. Some amplify it at single
elements, and a TopK returns two scores that are almost equal in either order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import onnx

from tvmbuild.base.specs import Tolerance
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.compare import ROUNDINGS, Arrays, find_limits, is_length_moved, widen
from tvmbuild.preparing.decisions import name_change, watch_decisions
from tvmbuild.preparing.reference import ORT_ERRORS

Run = Callable[[Arrays], dict[str, np.ndarray]]

SHAKES: Mapping[str, tuple[float, ...]] = {
    "fp32": (1e-7, 1e-7, 1e-6, 1e-6),
    "fp16": (2.5e-4, 2.5e-4, 5e-4, 5e-4),
    "bf16": (2e-3, 2e-3, 4e-3, 4e-3),
}
"""The model's precision → the relative changes of the inputs, one run for each: a rounding error, and a larger one.

A long sum in float32 loses some 1e-6. Sums of the 16-bit types are in float32, and each result is rounded once.
"""
MORE_SHAKES = 6
"""The number of further runs with the larger change where an output moves beyond the default tolerance.

The largest of two random movements is near 0 for one element in some hundreds, and outputs have a million elements.
"""
DECISIONS = 2
"""The number of pairs of runs with changed scores: two scores that are almost equal change places in one of a pair."""
MARGIN = 4.0
"""The change of a score over its movement under `SHAKES`, because another implementation may round more."""


class Rounding(NamedTuple):
    """The movement of a model's outputs under rounding errors, and notes about runs that show less of it."""

    moved: dict[str, np.ndarray]
    """Output → how far rounding moves each element, for the outputs that it may move beyond the default tolerance.

    The arrays are float32, in the outputs' shapes; a single infinity stands for an output whose length changes.
    """
    notes: tuple[str, ...] = ()


@dataclass
class _Movements:
    """The largest distance of each element from its place, over all runs so far."""

    places: Arrays
    found: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, values: Arrays) -> None:
        """Take a run's values into account."""
        for name, place in self.places.items():
            if values[name].shape != place.shape:
                self.found[name] = np.array(np.inf)  # rounding decides how many elements there are
                continue
            if self.found.get(name, place).shape != place.shape:
                continue
            with np.errstate(invalid="ignore"):
                distance = np.abs(widen(values[name]) - widen(place))
            self.found[name] = np.maximum(np.where(np.isfinite(distance), distance, 0.0), self.found.get(name, 0.0))

    def find_large(self, tolerance: Tolerance) -> dict[str, np.ndarray]:
        """Return the movements, as float32, of the places for which the tolerance is too narrow somewhere."""
        return {
            name: moved.astype(np.float32)
            for name, moved in self.found.items()
            if is_length_moved(moved, self.places[name])
            or (ROUNDINGS * moved > find_limits(self.places[name], tolerance).allowed).any()
        }


@dataclass
class _Changes:
    """The runs of a model with changed inputs; ``failures`` are the reasons of those that failed."""

    run: Run
    count: int = 0
    failures: list[str] = field(default_factory=list)

    def try_run(self, inputs: Arrays) -> dict[str, np.ndarray] | None:
        """Return the outputs, or None if ONNX Runtime fails with these inputs. Raises all other errors."""
        self.count += 1
        try:
            return self.run(inputs)
        except TvmbuildError as error:
            if not isinstance(error.__cause__, ORT_ERRORS):
                raise
            self.failures.append(error.message)
            return None


def measure_rounding(
    model: bytes, inputs: Arrays, outputs: Arrays, precision: str, load: Callable[[bytes], Run]
) -> Rounding:
    """Return how far rounding moves the elements of the outputs.

    ``outputs`` are the model's numbers for ``inputs``, ``precision`` is a key of `SHAKES`, and ``load`` returns the
    function that runs a model. A changed run may fail, as detectors may that find nothing: this counts as a change of
    length for the outputs whose shapes the graph leaves open. For other outputs the run is left out. A note says why
    it failed.
    """
    watched = watch_decisions(model)
    changes, random = _Changes(load(watched.model)), np.random.RandomState(0)
    still = {name_change(score): np.zeros((), dtype) for score, dtype in watched.scores.items()}
    base = changes.run({**inputs, **still})
    ends, scores = _Movements(outputs), _Movements({score: base[score] for score in watched.scores})
    ends.add(base)
    scores.add(base)
    tolerance = Tolerance().at_least(precision)

    def shake(relative: float) -> None:
        shaken = changes.try_run({**shake_inputs(inputs, relative, random), **still})
        if shaken is not None:
            ends.add(shaken)
            scores.add(shaken)

    for relative in SHAKES[precision]:
        shake(relative)
    if ends.find_large(tolerance):
        for _ in range(MORE_SHAKES):
            shake(SHAKES[precision][-1])
    for _ in range(DECISIONS if watched.scores else 0):
        drawn = {
            name_change(score): _draw_change(scores.found[score], random).astype(dtype)
            for score, dtype in watched.scores.items()
        }
        for each in (drawn, {name: np.asarray(-change) for name, change in drawn.items()}):
            moved = changes.try_run({**inputs, **each})
            if moved is not None:
                ends.add(moved)
    open_names = _list_open(watched.model, outputs) if changes.failures else []
    ends.found |= {name: np.array(np.inf) for name in open_names}
    return Rounding(ends.find_large(tolerance), _note_failures(changes, open_names))


def _list_open(model: bytes, outputs: Arrays) -> list[str]:
    """Return the outputs of a model with inferred shapes whose lengths the graph does not fix; scalars have none."""
    tensors = {each.name: each.type.tensor_type for each in onnx.load_model_from_string(model).graph.output}
    fixed = {
        name
        for name, tensor in tensors.items()
        if tensor.HasField("shape") and all(each.HasField("dim_value") for each in tensor.shape.dim)
    }
    return [name for name, value in outputs.items() if value.ndim and name not in fixed]


def _note_failures(changes: _Changes, open_names: list[str]) -> tuple[str, ...]:
    if not changes.failures:
        return ()
    effect = f", so that any length is right for {', '.join(open_names)}" if open_names else ""
    failed = f"{len(changes.failures)} of {changes.count} runs with changes as small as rounding failed"
    return (f"{failed}{effect}: {changes.failures[0]}",)


def shake_inputs(inputs: Arrays, relative: float, random: np.random.RandomState) -> dict[str, np.ndarray]:
    """Return the inputs with each float changed by a random share of itself; whole numbers may be counts, and stay."""
    return {
        name: np.asarray(value * (1 + random.uniform(-relative, relative, value.shape)), value.dtype)
        if value.dtype.kind == "f" and (value != np.round(value)).any()
        else value
        for name, value in inputs.items()
    }


def _draw_change(moved: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Return a random change of each score that rounding moves: an exact score, such as a mask's, stays exact."""
    moves = moved > 0
    typical = float(moved[moves].mean()) if moves.any() else 0.0
    change = random.uniform(-MARGIN, MARGIN, moved.shape) * np.where(moves, np.maximum(moved, typical), 0.0)
    return np.asarray(change)
