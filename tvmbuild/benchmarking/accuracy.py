"""Real inputs through the package and through the original model: how often they agree, and how far they are apart.

The original model is the simplified one under ONNX Runtime, unoptimised; simplify has compared it with the file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import Accuracy, Tolerance
from tvmbuild.benchmarking.results import Agreement
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.inputs import check_inputs, read_arrays
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.preprocess import find_rules, preprocess_picture
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.reference import run_onnx

Arrays = Mapping[str, np.ndarray]


Run = Callable[[Arrays], Arrays]
Judge = Callable[[Run], Agreement]


def make_judge(accuracy: Accuracy, package: Path, model: bytes, paths: list[Path]) -> Judge:
    """Return what runs a package on the files of samples, and the original ``model``, ONNX, beside it.

    It raises TvmbuildError for inputs that do not fit.
    """

    def judge(ours: Run) -> Agreement:
        samples = list_samples(accuracy, paths, read_metadata(package))
        report_progress("comparing with the original model on real inputs")
        return compare_samples(samples, ours, lambda inputs: run_onnx(model, inputs, "the simplified model"))

    return judge


def list_samples(accuracy: Accuracy, paths: list[Path], info: PackageInfo) -> Iterator[dict[str, np.ndarray]]:
    """Yield the package's inputs, a sample at a time: a picture, or the next rows of an .npz."""
    if accuracy.kind == "images":
        for path in paths:
            inputs = {find_rules(info)[1].name: preprocess_picture(info, path)}
            check_inputs(info, inputs)
            yield inputs
    else:
        yield from _cut(read_arrays(paths[0]), info, paths[0])


def compare_samples(samples: Iterator[dict[str, np.ndarray]], ours: Run, theirs: Run) -> Agreement:
    """Run both on each sample; the outputs have the same names and shapes."""
    count = agreeing = 0
    error = largest = 0.0
    for inputs in samples:
        want, got = theirs(inputs), ours(inputs)
        count += 1
        first = next(iter(want))
        agreeing += bool(np.argmax(want[first]) == np.argmax(got[first])) if want[first].size else 1
        error = max(error, compare(got, want, Tolerance()).max_abs_error)
        for value in want.values():
            largest = max(largest, float(np.max(np.abs(value), where=np.isfinite(value), initial=0.0)))
    return Agreement(count, agreeing, error, largest)


def _cut(arrays: Arrays, info: PackageInfo, path: Path) -> Iterator[dict[str, np.ndarray]]:
    """Yield the arrays in pieces of the inputs' shapes; each array has the same number of them."""
    wrong = sorted(set(arrays) ^ {tensor.name for tensor in info.inputs})
    if wrong:
        names = ", ".join(tensor.name for tensor in info.inputs)
        raise TvmbuildError(
            f"{path} has not just the inputs of {info.model}: {', '.join(wrong)}", f"it must hold {names}"
        )
    counts = set()
    for tensor in info.inputs:
        array, rows = arrays[tensor.name], tensor.shape[:1]
        fits = bool(rows) and array.shape[1:] == tensor.shape[1:] and len(array) > 0 and len(array) % rows[0] == 0
        if not fits or str(array.dtype) != tensor.dtype:
            raise TvmbuildError(
                f"{path}: {tensor.name} is {array.dtype} {list(array.shape)}, no samples of "
                f"{tensor.dtype} {list(tensor.shape)}",
                "put the samples one behind the other along the first dimension (numpy.concatenate)",
            )
        counts.add(len(array) // rows[0])
    if len(counts) > 1:
        raise TvmbuildError(f"{path} has not equally many samples of each input: {sorted(counts)}")
    for index in range(counts.pop() if counts else 0):
        yield {t.name: arrays[t.name][index * t.shape[0] : (index + 1) * t.shape[0]] for t in info.inputs}
