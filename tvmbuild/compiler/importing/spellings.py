"""The ranks of inputs of one element: exporters write a scalar or a vector, whichever of the two ONNX defines."""

from __future__ import annotations

from collections.abc import Mapping

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_RANKS: Mapping[str, Mapping[int, int]] = {
    **{f"Reduce{each}": {1: 1} for each in _REDUCTIONS},
    **{f"{each}Window": {0: 0} for each in ("Blackman", "Hamming", "Hann")},
    "CenterCropPad": {1: 1},
    "Clip": {1: 0, 2: 0},
    "ConstantOfShape": {0: 1},
    "CumProd": {1: 0},
    "CumSum": {1: 0},
    "DFT": {1: 0, 2: 0},
    "Dropout": {1: 0, 2: 0},
    "Expand": {1: 1},
    "OneHot": {1: 0},
    "Pad": {1: 1, 2: 0, 3: 1},
    "Range": {0: 0, 1: 0, 2: 0},
    "Reshape": {1: 1},
    "Resize": {2: 1, 3: 1},
    "STFT": {1: 0, 3: 0},
    "Slice": {1: 1, 2: 1, 3: 1, 4: 1},
    "Squeeze": {1: 1},
    "Tile": {1: 1},
    "TopK": {1: 1},
    "Trilu": {1: 0},
    "Unsqueeze": {1: 1},
}


def find_rank(operator: str, place: int) -> int | None:
    """Return the rank, 0 or 1, that ONNX asks of an input of one element, or None if the ranks differ in meaning."""
    return _RANKS.get(operator, {}).get(place)
