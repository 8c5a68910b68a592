"""The choosing phase: of the ways to compute a convolution, all of which were measured, the fastest."""

from __future__ import annotations

from collections.abc import Iterable

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.convolution_times import fastest, sum_times, time_reading
from tvmbuild.records.choices import DIRECT, Choice, Choices, Graph, write_choices
from tvmbuild.tuning.extract import AlgorithmCandidates, Extracted, lower_by
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.record_book import RecordBook


def choose(job: Job, book: RecordBook, extracted: Extracted) -> Extracted:
    """Write the choices file, and return the model computed as it says; nothing changes where nothing is open.

    The time of an algorithm is the sum of its Tasks' best times on this machine: the direct Task with all that is fused
    to it, against the two transforms, with the same fused to the second, and the products; and the time to read the
    weights from memory. What has no time (``ops`` leaves its Tasks out) is computed directly.
    """
    candidates, graph = extracted.candidates, extracted.graph
    if candidates is None or graph is None:
        return extracted
    chosen = Choices(
        {
            signature: Choice(fastest(found) or DIRECT, book.device_class, FrozenMap(sorted(found.items())))
            for signature, found in _time_candidates(book, candidates, graph).items()
        }
    )
    write_choices(job.records, graph, job.resolved, chosen)
    return lower_by(extracted, chosen.algorithms(graph, job.options.algorithms))


def _time_candidates(book: RecordBook, candidates: AlgorithmCandidates, graph: Graph) -> dict[str, dict[str, float]]:
    """Return signature → algorithm → seconds, of the algorithms that have a time."""
    best = _best_seconds(book, (task.key for task in candidates.tasks))
    times = sum_times(candidates.involved, best, graph.convolutions)
    for name, lowered in candidates.lowered.items():
        for signature, seconds in time_reading(lowered).items():
            if name in times[signature]:
                times[signature][name] = round(times[signature][name] + seconds, 6)
    return times


def _best_seconds(book: RecordBook, keys: Iterable[str]) -> dict[str, float]:
    found = {key: file.best_on(book.device_class) for key, file in book.files(keys).items()}
    return {key: records[0].seconds for key, records in found.items() if records}
