"""Tuning as a whole: extract, verify, choose, search, elect."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvmbuild.tuning.choose import choose
from tvmbuild.tuning.elect import Elected, elect
from tvmbuild.tuning.extract import Extracted, extract
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.record_book import RecordBook
from tvmbuild.tuning.search import Searched, search
from tvmbuild.tuning.verify import verify


@dataclass(frozen=True)
class Tuned:
    """What came of a job: what is compiled, what was measured for it, and the schedule of its Tasks."""

    extracted: Extracted
    searched: Searched
    elected: Elected


def tune(job: Job, model: Path) -> Tuned:
    """Tune an ONNX model: its Tasks' records are added to, the fastest of them elected.

    Where it was not measured yet how its convolutions are best computed, the Tasks of all ways are searched at once
    with the rest; then what the chosen way still lacks.
    """
    book, extracted, searched = RecordBook(job), extract(job, model), Searched()
    if extracted.candidates is not None:
        searched = search(job, book, verify(job, book, extracted.agenda_of(extracted.candidates)))
        extracted = choose(job, book, extracted)
    searched += search(job, book, verify(job, book, extracted.agenda(done=searched.keys)))
    return Tuned(extracted, searched, elect(job, book, extracted, searched))
