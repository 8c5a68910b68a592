"""The error of a quantised network's outputs, in which small and large columns count alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Arrays = Mapping[str, np.ndarray]
_LEAST = 1e-6
"""The smallest mean square of a column, as a share of the output's: constants count no more than others."""


class OutputError:
    """The squared error against known outputs: for each column of each output over its own mean square.

    A detector's output holds pixels and probabilities side by side, and an error of one pixel must not hide a lost
    probability. The columns are the indices of the axis along which magnitudes differ most.
    """

    def __init__(self, wanted: Sequence[Arrays]) -> None:
        """Prepare for samples with these ``wanted`` outputs (name → array)."""
        self._wanted = wanted
        self._weights = {
            name: _find_weights(np.stack([each[name] for each in wanted]).astype(np.float64))
            for name, value in wanted[0].items()
            if value.size
        }

    def measure(self, found: Sequence[Arrays]) -> float:
        """Return the mean over samples, outputs and elements. It is infinite if an output is not finite."""
        errors = [
            float(np.mean(np.square(got[name].astype(np.float64) - want[name]) * weights))
            for got, want in zip(found, self._wanted, strict=True)
            for name, weights in self._weights.items()
        ]
        total = float(np.mean(errors)) if errors else 0.0
        return total if np.isfinite(total) else float("inf")


def _find_weights(values: np.ndarray) -> np.ndarray:
    """Return the weight of each element of one sample. ``values`` has the samples along its first axis."""
    squares = np.square(np.where(np.isfinite(values), values, 0.0))
    least = _LEAST * float(squares.mean()) or 1.0
    columns = [
        np.maximum(squares.mean(axis=tuple(each for each in range(values.ndim) if each != axis)), least)
        for axis in range(1, values.ndim)
    ]
    if not columns:
        return np.asarray(1.0 / max(float(squares.mean()), least))
    axis, column = max(enumerate(columns, 1), key=lambda each: float(np.var(np.log(each[1]))))
    shape = [-1 if each == axis else 1 for each in range(1, values.ndim)]
    weights: np.ndarray = (1.0 / column).reshape(shape)
    return weights
