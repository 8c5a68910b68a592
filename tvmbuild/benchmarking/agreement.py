"""The agreement of a package with the original model on real inputs, and its thresholds. Imports no slow module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tvmbuild.base.specs import Accuracy
from tvmbuild.benchmarking.plain_fields import read_fields
from tvmbuild.errors import VerdictError

DIGITS = ".3g"


@dataclass(frozen=True)
class Agreement:
    """The comparison of a package's outputs with the original model's on real inputs.

    Each error is that of one output over all samples. If there are several outputs, it is the worst output's. If the
    original leaves an output at zero throughout, that output's error is not divided.
    """

    samples: int
    """The number of samples. Each row of a batch counts."""
    agreeing: int
    """The number of samples for which the largest element of the first output is the same one."""
    max_abs_error: float
    """The largest error over all samples and outputs."""
    largest: float
    """The largest magnitude of the original model's outputs, to compare the error with."""
    of_largest: float | None = None
    """The largest error over the largest magnitude of the original's output. None, here and below: not known."""
    rms: float | None = None
    """The root mean square of the errors over that of the original's output."""
    unlike: int = 0
    """The number of samples with NaN or infinity in only one of both models. No error includes these elements."""
    worst_top1: str | None = None
    """The disagreeing sample for which the original is surest. None, here and below: there is none."""
    worst_of_largest: str | None = None
    worst_rms: str | None = None
    worst_unlike: str | None = None

    @property
    def top1(self) -> float:
        """Return the share of the samples that agree."""
        return self.agreeing / self.samples

    def to_json(self) -> dict[str, object]:
        """Return the JSON value. `read_agreement` is the inverse."""
        return asdict(self)

    def describe(self) -> str:
        """Return the figures, for people."""
        parts = [f"same top-1 for {self.agreeing} of {self.samples} ({self.top1:.1%})"]
        parts += [] if self.rms is None else [f"rms {self.rms:.2%}"]
        parts += [f"largest error {self.max_abs_error:.2g} where outputs reach {self.largest:.3g}"]
        parts += [f"NaN or infinity in other places for {self.unlike}"] if self.unlike else []
        return ", ".join(parts)


_UNKNOWN = asdict(Agreement(0, 0, 0.0, 0.0))


def read_agreement(data: Mapping[str, Any]) -> Agreement:
    """Read the value of `Agreement.to_json`, or of an older version with fewer fields. Raises as `read_fields` does."""
    known = {name: value for name, value in _UNKNOWN.items() if name not in ("samples", "agreeing")}
    agreement: Agreement = read_fields(Agreement, {**known, **data})
    return agreement


def check_agreement(agreement: Agreement | None, accuracy: Accuracy | None) -> None:
    """Raise VerdictError if the agreement misses a threshold."""
    short = tuple(_list_shortfalls(agreement, accuracy)) if agreement and accuracy else ()
    if short:
        raise VerdictError(
            f"too far from the original model on real inputs: {'; '.join(short)}",
            "look at that sample; if the figure is good enough for this model, change its `accuracy:` in models.yaml.",
        )


def _list_shortfalls(found: Agreement, asked: Accuracy) -> Iterator[str]:
    """Yield each figure that misses its threshold, with the threshold and the sample to look at."""
    if asked.top1 is not None and found.top1 < asked.top1:
        figure = f"{found.top1:.4g} ({found.agreeing} of {found.samples} samples)"
        yield f"top1 is {figure}, asked for is {asked.top1:g}, worst is {found.worst_top1}"
    if asked.rms is not None and found.rms is not None and found.rms > asked.rms:
        yield f"rms is {found.rms:{DIGITS}}, allowed is {asked.rms:g}, worst is {found.worst_rms}"
    if asked.of_largest is not None and found.of_largest is not None and found.of_largest > asked.of_largest:
        figure = f"{found.of_largest:{DIGITS}}"
        yield f"of_largest is {figure}, allowed is {asked.of_largest:g}, worst is {found.worst_of_largest}"
    if found.unlike and (asked.top1, asked.rms, asked.of_largest) != (None, None, None):
        yield f"NaN or infinity in other places for {found.unlike} of {found.samples} samples, as {found.worst_unlike}"
