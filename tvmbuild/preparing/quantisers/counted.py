"""Samples that report how many of them a library has taken."""

from __future__ import annotations

from collections.abc import Iterator

from tvmbuild.base.pace import Pace
from tvmbuild.base.progress import report_progress
from tvmbuild.package.samples import Arrays, Samples


class CountedSamples:
    """The samples unchanged; each walk through them is reported as progress, with its rate and the time left."""

    def __init__(self, samples: Samples, method: str) -> None:
        self._samples, self._method = samples, method

    def __iter__(self) -> Iterator[Arrays]:
        """Return the samples, from the first one."""
        last = len(self._samples) - 1
        pace = Pace(f"{self._method} finds ranges", len(self._samples), "samples")
        for number, each in enumerate(self._samples):
            if number < last:
                pace.report(number)
            else:  # some libraries never ask again, and the time of rounding and correcting is unknown
                report_progress(f"{self._method} takes the last of {last + 1} samples, then makes the model")
            yield each

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._samples)
