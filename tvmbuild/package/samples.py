"""Samples, which are real inputs of a model, from the files that models.yaml names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tvmbuild.base.quantize_specs import Calibration
from tvmbuild.base.sequences import take_evenly
from tvmbuild.base.specs import Accuracy
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.inputs import check_inputs, read_arrays
from tvmbuild.package.metadata import TakesInputs
from tvmbuild.package.preprocess import find_rules, preprocess_picture

Arrays = Mapping[str, np.ndarray]


class Samples(Protocol):
    """A collection of samples, each with all inputs of a model. It can be iterated any number of times."""

    def __iter__(self) -> Iterator[Arrays]:
        """Return an iterator over the samples."""

    def __len__(self) -> int:
        """Return the number of samples."""


@dataclass(frozen=True)
class _Pictures:
    """Samples from files of pictures. Each iteration reads the files again, because together they may exceed memory."""

    given: Calibration
    paths: Sequence[Path]
    model: TakesInputs

    def __iter__(self) -> Iterator[Arrays]:
        return list_samples(self.given, self.paths, self.model)

    def __len__(self) -> int:
        return len(self.paths)


def open_samples(given: Calibration, paths: Sequence[Path], model: TakesInputs) -> Samples:
    """Return at most ``given.count`` samples, taken evenly from all that ``paths`` have.

    Raises TvmbuildError like :func:`list_samples`; for pictures it is raised while the result is iterated.
    """
    if given.kind == "images":
        return _Pictures(given, take_evenly(paths, given.count), model)
    return take_evenly(list(list_samples(given, paths, model)), given.count)


def crop_samples(samples: Samples, model: TakesInputs) -> Samples:
    """Return samples for another size of a model: of each array the part from its beginning that the input takes.

    An axis that is longer than the sample's repeats it.
    """
    return [{each.name: _take(sample[each.name], each.shape) for each in model.inputs} for sample in samples]


def _take(value: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    for axis, length in enumerate(shape):
        value = value.take(np.arange(length), axis, mode="wrap")
    return np.ascontiguousarray(value)


def list_samples(
    given: Accuracy | Calibration, paths: Sequence[Path], model: TakesInputs
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the model's inputs (name → array) for each sample: a picture, or the next rows of the arrays in an .npz.

    Raises TvmbuildError if a file cannot be read, or if a sample does not fit the shapes and types of the inputs.
    """
    if given.kind == "images":
        if len(model.inputs) > 1:
            names = ", ".join(tensor.name for tensor in model.inputs)
            raise TvmbuildError(
                f"{model.model} has the inputs {names}, and a picture is only one of them",
                "give samples of all of them in an .npz, by `inputs:` instead of `images:`",
            )
        for path in paths:
            inputs = {find_rules(model)[1].name: preprocess_picture(model, path)}
            check_inputs(model, inputs)
            yield inputs
    else:
        yield from _cut(read_arrays(paths[0]), model, paths[0])


def _cut(arrays: Arrays, model: TakesInputs, path: Path) -> Iterator[dict[str, np.ndarray]]:
    """Cut the arrays of an .npz along the first dimension into pieces of the inputs' shapes, and yield them as samples.

    Raises TvmbuildError if the arrays do not fit, or if they have different numbers of pieces.
    """
    wrong = sorted(set(arrays) ^ {tensor.name for tensor in model.inputs})
    if wrong:
        names = ", ".join(tensor.name for tensor in model.inputs)
        raise TvmbuildError(
            f"{path} must have exactly the inputs of {model.model}: {', '.join(wrong)}", f"it must hold {names}"
        )
    counts = set()
    for tensor in model.inputs:
        array, rows = arrays[tensor.name], tensor.shape[:1]
        fits = bool(rows) and array.shape[1:] == tensor.shape[1:] and len(array) > 0 and len(array) % rows[0] == 0
        if not fits or str(array.dtype) != tensor.dtype:
            raise TvmbuildError(
                f"{path}: {tensor.name} is {array.dtype} {list(array.shape)}, no samples of "
                f"{tensor.dtype} {list(tensor.shape)}",
                "put the samples one after the other along the first dimension (numpy.concatenate)",
            )
        counts.add(len(array) // rows[0])
    if len(counts) > 1:
        raise TvmbuildError(
            f"{path} has not equally many samples of each input: {sorted(counts)}",
            "save as many of one input as of the others, in the same order",
        )
    for index in range(counts.pop() if counts else 0):
        yield {t.name: arrays[t.name][index * t.shape[0] : (index + 1) * t.shape[0]] for t in model.inputs}
