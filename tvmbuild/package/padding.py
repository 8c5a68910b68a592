"""Inputs that are padded to the next size of a package, and outputs that are cut again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvmbuild.base.size_specs import Axis


def pad_inputs(
    inputs: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]], values: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """Return the inputs in larger shapes. What is added has the input's value among ``values``, or 0."""
    return {
        name: _pad(array, tuple(shapes[name]), values.get(name, 0)) if array.shape != tuple(shapes[name]) else array
        for name, array in inputs.items()
    }


def cut(array: np.ndarray, shape: Sequence[Axis], values: Mapping[str, int]) -> np.ndarray:
    """Return an output without what padding added: as many elements as the letters of its shape say."""
    ends = tuple(slice(values[axis]) if isinstance(axis, str) else slice(None) for axis in shape)
    return np.ascontiguousarray(array[ends])


def take_rows(array: np.ndarray, shape: Sequence[Axis], letter: str, start: int, count: int) -> np.ndarray:
    """Return a view of a part of an input along the axis with this letter, or the whole input if it has none."""
    if letter not in shape:
        return array
    index = [slice(None)] * (list(shape).index(letter) + 1)
    index[-1] = slice(start, start + count)
    part: np.ndarray = array[tuple(index)]
    return part


def _pad(array: np.ndarray, shape: tuple[int, ...], value: float) -> np.ndarray:
    wide = np.full(shape, value, array.dtype)
    wide[tuple(slice(length) for length in array.shape)] = array
    return wide
