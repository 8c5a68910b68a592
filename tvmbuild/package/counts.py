"""Outputs whose length depends on data: ``main`` returns them padded, and after all outputs their lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvmbuild.package.metadata import TensorInfo


def has_counts(outputs: Sequence[TensorInfo]) -> bool:
    """Return whether the length of an output depends on data, so that ``main`` returns the lengths after them."""
    return any(each.counts for each in outputs)


def count_lengths(outputs: Sequence[TensorInfo]) -> int:
    """Return the number of lengths after the outputs, or 0 if there are none."""
    return max((count.place + 1 for each in outputs for count in each.counts), default=0)


def cut_outputs(outputs: Sequence[TensorInfo], arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of ``main`` by the outputs' names, each output cut to its lengths."""
    if not has_counts(outputs):
        return {info.name: array for info, array in zip(outputs, arrays, strict=True)}
    *whole, lengths = arrays
    return {info.name: _cut(info, array, lengths) for info, array in zip(outputs, whole, strict=True)}


def fill_outputs(outputs: Sequence[TensorInfo], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return outputs that were cut in their whole shapes, with zeros in place of the elements that were cut off."""
    filled = dict(arrays)
    for info in outputs:
        array = arrays.get(info.name)
        if info.counts and isinstance(array, np.ndarray) and _fits(info, array):
            filled[info.name] = np.zeros(info.shape, array.dtype)
            filled[info.name][tuple(slice(size) for size in array.shape)] = array
    return filled


def _cut(info: TensorInfo, array: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    ends = {count.axis: int(lengths[count.place]) for count in info.counts}
    return array[tuple(slice(ends.get(axis)) for axis in range(array.ndim))] if ends else array


def _fits(info: TensorInfo, array: np.ndarray) -> bool:
    counted = {count.axis for count in info.counts}
    return array.ndim == len(info.shape) and all(
        got <= size if axis in counted else got == size
        for axis, (got, size) in enumerate(zip(array.shape, info.shape, strict=True))
    )
