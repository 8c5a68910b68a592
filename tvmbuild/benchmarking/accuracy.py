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
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.samples import list_samples
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
