"""The accuracy of a package on real inputs: its agreement with the original model, and its errors.

The original model is the simplified ONNX model, which ONNX Runtime runs without optimisations. The simplify stage has
already compared it with the model file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

from tvmbuild.base.pace import Pace
from tvmbuild.base.specs import Accuracy
from tvmbuild.benchmarking.agreement import Agreement
from tvmbuild.benchmarking.metric import MetricRun
from tvmbuild.benchmarking.real_inputs import REMEMBERED, RememberedSamples, run_each
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TakesInputs
from tvmbuild.package.samples import list_samples
from tvmbuild.preparing.compare import widen
from tvmbuild.preparing.onnx_graph import graph_inputs
from tvmbuild.preparing.reference import open_onnx

Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], Arrays]
Judge = Callable[[Run], Agreement]


def make_judge(
    accuracy: Accuracy, takes: TakesInputs, original: Path, paths: Sequence[Path], root: Path = Path()
) -> Judge:
    """Return a function that compares a package with the ``original`` ONNX model on the samples in the files ``paths``.

    The function takes a callable that runs the package. It raises TvmbuildError if the samples do not fit the model, or
    if the metric fails, which is relative to ``root``.
    """
    known: list[float] = []  # the metric of the original model, for the next call
    originals = _Originals(original)
    named = RememberedSamples(lambda: name_samples(accuracy, paths, takes))

    def judge(ours: Run) -> Agreement:
        theirs = originals.begin()
        total = len(accuracy.paths) if accuracy.kind == "images" else None
        if accuracy.metric is None:
            return compare_samples(named, ours, theirs, total)
        with TemporaryDirectory(prefix="tvmbuild-metric-") as folder:
            of_ours, of_theirs = (MetricRun(accuracy.metric, root, Path(folder, who)) for who in ("ours", "theirs"))

            def keep(name: str, got: Arrays, want: Arrays) -> None:
                of_ours.add(name, got)
                of_theirs.add(name, want)

            found = compare_samples(named, ours, theirs, total, keep)
            if not known:
                known.append(of_theirs.compute())
            return replace(found, metric=of_ours.compute(), metric_original=known[0])

    return judge


def judge_file_too(judge: Judge, file: Path | None) -> Judge:
    """Return a judge that also compares ``file``, the quantised model from which a package is built; None: no file."""
    if file is None:
        return judge
    data = file.read_bytes()
    return lambda ours: replace(judge(ours), of_file=judge(open_onnx(data, "the quantised file")))


class _Originals:
    """The original model, which computes the outputs of the same samples only once if they fit into memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inputs = [value.name for value in graph_inputs(onnx.load(path, load_external_data=False))]
        self._known: list[Arrays] = []
        self._bytes = self._next = 0

    def begin(self) -> Run:
        """Return a function that returns the outputs of one sample after the other, from the first one."""
        self._next, compute = 0, open_onnx(self._path.read_bytes(), "the original model")

        def run(inputs: Arrays) -> Arrays:
            index, self._next = self._next, self._next + 1
            if index < len(self._known):
                return self._known[index]
            outputs = compute(self._name(inputs))
            self._bytes += sum(each.nbytes for each in outputs.values())
            if self._bytes <= REMEMBERED:
                self._known.append(outputs)
            return outputs

        return run

    def _name(self, inputs: Arrays) -> Arrays:
        """Return the inputs under the original's names, by their order if it has other names."""
        if inputs.keys() == set(self._inputs) or len(inputs) != len(self._inputs):
            return inputs
        return dict(zip(self._inputs, inputs.values(), strict=True))


def name_samples(accuracy: Accuracy, paths: Sequence[Path], takes: TakesInputs) -> Iterator[tuple[str, Arrays]]:
    """Return (name, inputs) for each sample in the files ``paths``."""
    samples = list_samples(accuracy, paths, takes)
    if accuracy.kind == "images":
        return zip(accuracy.paths, samples, strict=True)
    return ((f"{accuracy.paths[0]}[{index}]", each) for index, each in enumerate(samples))


def compare_samples(
    samples: Iterable[tuple[str, Arrays]],
    ours: Run,
    theirs: Run,
    total: int | None = None,
    keep: Callable[[str, Arrays, Arrays], None] | None = None,
) -> Agreement:
    """Run the package (``ours``) and the original model (``theirs``) on each named sample and compare their outputs.

    ``total`` is the number of samples, or None if it is unknown. ``keep`` is called with the name and both outputs of
    each sample. Raises TvmbuildError if the two have different output
    names or shapes, or if there are no samples.
    """
    tally, pace = _Tally(), Pace("comparing with the original model on real inputs", total, "samples")
    for index, (name, inputs, got) in enumerate(run_each(samples, ours)):
        pace.report(index)
        want = _align(theirs(inputs), got)
        tally.add(name, got, want, _count_batch(inputs, want))
        if keep:
            keep(name, got, want)
    if not tally.count:
        raise TvmbuildError("the model has no inputs, so no sample can measure its accuracy", "leave out `accuracy:`")
    return tally.sum_up()


def _align(want: Arrays, got: Arrays) -> Arrays:
    """Return the original's outputs under the package's names, by their order if the original has other names."""
    if want.keys() == got.keys() or len(want) != len(got):
        return want
    return dict(zip(got, want.values(), strict=True))


def _count_batch(inputs: Arrays, want: Arrays) -> int:
    """Return the batch size: the number of rows of all inputs and of the first output, or 1 if these differ."""
    arrays = [*inputs.values(), *list(want.values())[:1]]
    extents = {each.shape[0] if each.ndim > 1 else 1 for each in arrays}
    return extents.pop() if inputs and len(extents) == 1 else 1


@dataclass
class _Most:
    """The largest value so far, and the name of its sample."""

    value: float = 0.0
    sample: str | None = None

    def offer(self, value: float, sample: str) -> None:
        if value > self.value or self.sample is None:
            self.value, self.sample = value, sample


@dataclass
class _Errors:
    """The errors of one output over all samples."""

    error: _Most = field(default_factory=_Most)
    largest: float = 0.0
    squared_error: _Most = field(default_factory=_Most)
    squared_errors: float = 0.0
    squares: float = 0.0
    count: int = 0

    def add(self, name: str, got: np.ndarray, want: np.ndarray) -> bool:
        """Add the errors of one sample. Returns whether both models have NaN and infinity in the same places."""
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        finite = np.isfinite(got) & np.isfinite(want)
        right = np.abs(np.where(np.isfinite(want), want, 0.0))
        error = np.abs(np.where(finite, got, 0.0) - np.where(finite, want, 0.0))
        squared = float(np.sum(np.square(error)))
        self.error.offer(float(np.max(error, initial=0.0)), name)
        self.squared_error.offer(squared, name)
        self.squared_errors += squared
        self.largest = max(self.largest, float(np.max(right, initial=0.0)))
        self.squares += float(np.sum(np.square(right)))
        self.count += int(np.count_nonzero(finite))
        return bool(np.all(same | finite))

    @property
    def of_largest(self) -> float:
        return self.error.value / (self.largest or 1.0)

    @property
    def rms(self) -> float:
        return float(np.sqrt(self.squared_errors / (self.squares or self.count or 1)))


@dataclass
class _Tally:
    """The counts and errors of all samples so far."""

    count: int = 0
    agreeing: int = 0
    unlike: int = 0
    disagreement: _Most = field(default_factory=_Most)
    worst_unlike: str | None = None
    outputs: dict[str, _Errors] = field(default_factory=dict)

    def add(self, name: str, got: Arrays, want: Arrays, batch: int) -> None:
        shapes, wanted = ({key: list(each.shape) for key, each in arrays.items()} for arrays in (got, want))
        if shapes != wanted:
            raise TvmbuildError(
                f"the original model has the outputs {wanted}, and the package {shapes}",
                "the package is of another model: delete it and run doit again; or correct `original:` of `accuracy:`",
            )
        first = next(iter(want))
        rows = (each[first].reshape(batch, -1) for each in (got, want))
        for got_row, want_row in zip(*rows, strict=True):
            self.count += 1
            self._add_top1(name, got_row, want_row)
        alike = [self.outputs.setdefault(key, _Errors()).add(name, widen(got[key]), widen(want[key])) for key in want]
        if not all(alike):
            self.unlike += 1
            self.worst_unlike = self.worst_unlike or name

    def _add_top1(self, name: str, got: np.ndarray, want: np.ndarray) -> None:
        place, right = (int(np.argmax(each)) if each.size else 0 for each in (got, want))
        if place == right:
            self.agreeing += 1
        else:
            self.disagreement.offer(float(widen(want)[right].real - widen(want)[place].real), name)

    def sum_up(self) -> Agreement:
        largest = max(self.outputs.values(), key=lambda each: each.of_largest)
        mean = max(self.outputs.values(), key=lambda each: each.rms)
        return Agreement(
            samples=self.count,
            agreeing=self.agreeing,
            max_abs_error=max(each.error.value for each in self.outputs.values()),
            largest=max(each.largest for each in self.outputs.values()),
            of_largest=largest.of_largest,
            rms=mean.rms,
            unlike=self.unlike,
            worst_top1=self.disagreement.sample,
            worst_of_largest=largest.error.sample,
            worst_rms=mean.squared_error.sample,
            worst_unlike=self.worst_unlike,
        )
