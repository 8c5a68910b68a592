"""The effect of rounding on a model's outputs: how far equally right numbers may be apart.

Two right implementations add up in different orders. Most networks damp the difference. Some amplify it at single
elements, and a TopK returns two scores that are almost equal in either order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tvmbuild.base.specs import Tolerance
from tvmbuild.preparing.compare import ROUNDINGS, Arrays, find_limits, is_length_moved, widen
from tvmbuild.preparing.decisions import name_change, watch_decisions

Run = Callable[[Arrays], dict[str, np.ndarray]]

SHAKES: Mapping[str, tuple[float, ...]] = {
    "fp32": (1e-7, 1e-7, 1e-6, 1e-6),
    "fp16": (2.5e-4, 2.5e-4, 5e-4, 5e-4),
    "bf16": (2e-3, 2e-3, 4e-3, 4e-3),
}
"""The model's precision → the relative changes of the inputs, one run for each: a rounding error, and a larger one.

A long sum in float32 loses some 1e-6. Sums of the 16-bit types are in float32, and each result is rounded once.
"""
DECISIONS = 2
"""The number of pairs of runs with changed scores: two scores that are almost equal change places in one of a pair."""
MARGIN = 4.0
"""The change of a score over its movement under `SHAKES`, because another implementation may round more."""


@dataclass
class _Movements:
    """The largest distance of each element from its place, over all runs so far."""

    places: Arrays
    found: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, values: Arrays) -> None:
        for name, place in self.places.items():
            if values[name].shape != place.shape:
                self.found[name] = np.array(np.inf)  # rounding decides how many elements there are
                continue
            if self.found.get(name, place).shape != place.shape:
                continue
            with np.errstate(invalid="ignore"):
                distance = np.abs(widen(values[name]) - widen(place))
            self.found[name] = np.maximum(np.where(np.isfinite(distance), distance, 0.0), self.found.get(name, 0.0))


def measure_rounding(
    model: bytes, inputs: Arrays, outputs: Arrays, precision: str, load: Callable[[bytes], Run]
) -> dict[str, np.ndarray]:
    """Return how far rounding moves each element, for the outputs that it may move beyond the default tolerance.

    ``outputs`` are the model's numbers for ``inputs``, ``precision`` is a key of `SHAKES`, and ``load`` returns the
    function that runs a model. The results are float32 arrays in the outputs' shapes, and a single infinity for
    an output whose length rounding changes.
    """
    watched = watch_decisions(model)
    run, random = load(watched.model), np.random.RandomState(0)
    still = {name_change(score): np.zeros((), dtype) for score, dtype in watched.scores.items()}
    base = run({**inputs, **still})
    ends, scores = _Movements(outputs), _Movements({score: base[score] for score in watched.scores})
    ends.add(base)
    for relative in SHAKES[precision]:
        shaken = run({**shake_inputs(inputs, relative, random), **still})
        ends.add(shaken)
        scores.add(shaken)
    for _ in range(DECISIONS if watched.scores else 0):
        changes = {
            name_change(score): _draw_change(scores.found[score], random).astype(dtype)
            for score, dtype in watched.scores.items()
        }
        ends.add(run({**inputs, **changes}))
        ends.add(run({**inputs, **{name: np.negative(change, out=change) for name, change in changes.items()}}))
    tolerance = Tolerance().at_least(precision)
    return {
        name: moved.astype(np.float32)
        for name, moved in ends.found.items()
        if is_length_moved(moved, outputs[name])
        or (ROUNDINGS * moved > find_limits(outputs[name], tolerance).allowed).any()
    }


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
