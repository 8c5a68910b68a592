"""The agreement of a package with the original model on real inputs, and the check of its thresholds.

This module imports no slow module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tvmbuild.base.specs import Accuracy, Metric
from tvmbuild.benchmarking.plain_fields import read_fields
from tvmbuild.errors import VerdictError

DIGITS = ".3g"


@dataclass(frozen=True)
class Agreement:
    """The comparison of a package's outputs with those of the original model on real inputs.

    Each error is taken over all samples of one output. If a model has several outputs, the worst output counts. If the
    original model's output is zero in all samples, the errors of this output are absolute, not relative.
    """

    samples: int
    """The number of samples. Each row of a batch counts."""
    agreeing: int
    """The number of samples for which both models have the largest element of the first output at the same index."""
    max_abs_error: float
    """The largest absolute error over all samples and outputs."""
    largest: float
    """The largest magnitude in the original model's outputs, for comparison with the error."""
    of_largest: float | None = None
    """The largest absolute error, divided by the largest magnitude of the original's output. None if it is unknown."""
    rms: float | None = None
    """The root mean square of the errors, divided by the root mean square of the original's output. None if unknown."""
    unlike: int = 0
    """The number of samples with an element that is NaN or infinite in one model and differs in the other.

    The errors omit these elements.
    """
    worst_top1: str | None = None
    """The sample without top-1 agreement for which the original model is most certain. None if all samples agree."""
    worst_of_largest: str | None = None
    """The sample with the largest absolute error, in the output that determines ``of_largest``."""
    worst_rms: str | None = None
    """The sample with the largest sum of squared errors, in the output that determines ``rms``."""
    worst_unlike: str | None = None
    """The first sample that ``unlike`` counts. None if it counts no sample."""

    metric: float | None = None
    """The number that the user's metric gives the package's outputs. None if the model names no metric."""
    metric_original: float | None = None
    """The number that the same metric gives the original model's outputs."""
    of_file: Agreement | None = None
    """The agreement of the quantised ONNX file itself, as ONNX Runtime computes it, with the original model. None if
    the package is built from the original model.
    """

    @property
    def drop(self) -> float | None:
        """Return how far the metric is below that of the original model, at least 0. None if there is no metric."""
        if self.metric is None or self.metric_original is None:
            return None
        return max(0.0, self.metric_original - self.metric)

    @property
    def top1(self) -> float:
        """Return the share of the samples for which both models have the same top-1 index."""
        return self.agreeing / self.samples

    def to_json(self) -> dict[str, object]:
        """Return the figures as a JSON value. `read_agreement` is the inverse."""
        return asdict(self)

    def describe(self) -> str:
        """Return the figures as a phrase for messages."""
        parts = [f"same top-1 for {self.agreeing} of {self.samples} ({self.top1:.1%})"]
        parts += [] if self.rms is None else [f"rms {self.rms:.2%}"]
        parts += [f"largest error {self.max_abs_error:.2g} where outputs reach {self.largest:.3g}"]
        parts += [f"NaN or infinity in other places for {self.unlike}"] if self.unlike else []
        parts += [] if self.metric is None else [f"metric {self.metric:.4g}, the original's {self.metric_original:.4g}"]
        parts += [] if self.of_file is None else [f"the quantised file itself: {self.of_file.describe()}"]
        return ", ".join(parts)


_UNKNOWN = asdict(Agreement(0, 0, 0.0, 0.0))


def read_agreement(data: Mapping[str, Any]) -> Agreement:
    """Parse the output of `Agreement.to_json`, also of older versions with fewer fields. Raises like `read_fields`."""
    known = {name: value for name, value in _UNKNOWN.items() if name not in ("samples", "agreeing")}
    agreement: Agreement = read_fields(Agreement, {**known, **data, "of_file": None})
    of_file = data.get("of_file")
    return replace(agreement, of_file=None if of_file is None else read_agreement(of_file))


def check_agreement(agreement: Agreement | None, accuracy: Accuracy | None) -> None:
    """Raise VerdictError if the agreement misses a threshold of ``accuracy``. If either is None, nothing is checked."""
    short = list_shortfalls(agreement, accuracy) if agreement and accuracy else ()
    if short:
        told = [*short, *_explain_file(agreement, accuracy)]
        raise VerdictError(
            f"too far from the original model on real inputs: {'; '.join(told)}",
            f"{_advise(agreement, accuracy)}; if the figure is good enough "
            "for this model, change its `accuracy:` in models.yaml.",
        )


def _advise(agreement: Agreement | None, accuracy: Accuracy | None) -> str:
    of_file = None if agreement is None else agreement.of_file
    if of_file is None or accuracy is None or not list_shortfalls(of_file, accuracy):
        return "look at that sample, also with `tvmbuild debug CELL --input NAME=SAMPLE`"
    if accuracy.original is not None:
        return "quantise the float model here by `quantize:`, or have its exporter keep more operators in floats"
    return (
        "`tvmbuild explain quantize:MODEL` tells whether the calibration samples suffice, and which operators lose "
        "most; `quantize: {keep: auto}` keeps in floats what must stay there"
    )


def _explain_file(agreement: Agreement | None, accuracy: Accuracy | None) -> Iterator[str]:
    """Yield whether the quantised file itself is too far from the original, if there is one."""
    if agreement is None or accuracy is None or agreement.of_file is None:
        return
    short = list_shortfalls(agreement.of_file, accuracy)
    if short:
        yield f"the quantised file itself is too far under ONNX Runtime, so quantising lost it: {'; '.join(short)}"
    else:
        figures = agreement.of_file.describe()
        yield f"the quantised file itself is close enough under ONNX Runtime, so the build lost it: {figures}"


def list_shortfalls(found: Agreement, asked: Accuracy) -> tuple[str, ...]:
    """Return a phrase for each figure that misses its threshold."""
    return tuple(_describe_shortfalls(found, asked))


def measure_margin(found: Agreement, asked: Accuracy) -> float:
    """Return the distance of the figures from the nearest threshold, negative if one is missed.

    Limits of errors count as shares of themselves, so that none hides behind another's unit.
    """
    margins = [found.top1 - asked.top1] if asked.top1 is not None else []
    for limit, error in ((asked.rms, found.rms), (asked.of_largest, found.of_largest)):
        margins += [(limit - error) / (limit or 1.0)] if limit is not None and error is not None else []
    metric, drop = asked.metric, found.drop
    if metric is not None and metric.drop is not None and drop is not None:
        margins.append(metric.drop - drop)
    if metric is not None and metric.at_least is not None and found.metric is not None:
        margins.append(found.metric - metric.at_least)
    return -1.0 if found.unlike else min(margins, default=0.0)


def _describe_shortfalls(found: Agreement, asked: Accuracy) -> Iterator[str]:
    """Yield a phrase for each figure that misses its threshold: the figure, the threshold and the worst sample."""
    if asked.top1 is not None and found.top1 < asked.top1:
        figure = f"{found.top1:.4g} ({found.agreeing} of {found.samples} samples)"
        yield f"top1 is {figure}, asked for is {asked.top1:g}, worst is {found.worst_top1}"
    if asked.rms is not None and found.rms is not None and found.rms > asked.rms:
        yield f"rms is {found.rms:{DIGITS}}, allowed is {asked.rms:g}, worst is {found.worst_rms}"
    if asked.of_largest is not None and found.of_largest is not None and found.of_largest > asked.of_largest:
        figure = f"{found.of_largest:{DIGITS}}"
        yield f"of_largest is {figure}, allowed is {asked.of_largest:g}, worst is {found.worst_of_largest}"
    if asked.metric is not None and found.metric is not None:
        yield from _describe_metric(found, asked.metric)
    if found.unlike and asked.has_threshold:
        yield f"NaN or infinity in other places for {found.unlike} of {found.samples} samples, as {found.worst_unlike}"


def _describe_metric(found: Agreement, asked: Metric) -> Iterator[str]:
    figures = f"{asked.shown} is {found.metric:.4g} (the original's {found.metric_original:.4g})"
    if asked.drop is not None and found.drop is not None and found.drop > asked.drop:
        yield f"{figures}, which is {found.drop:.4g} less, allowed is {asked.drop:g}"
    if asked.at_least is not None and found.metric is not None and found.metric < asked.at_least:
        yield f"{figures}, asked for is at least {asked.at_least:g}"
