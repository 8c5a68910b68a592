"""Tuning as a whole: extract, verify, choose, search, elect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.convolution_times import fastest, sum_times, time_reading
from tvmbuild.devices.lock import device_lock
from tvmbuild.records.choices import DIRECT, Choice, Choices, Graph, write_choices
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.selection import elect_all
from tvmbuild.tuning.agenda import join_agendas
from tvmbuild.tuning.extract import AlgorithmCandidates, Extracted, extract, lower_by
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.record_book import RecordBook
from tvmbuild.tuning.search import Searched, search
from tvmbuild.tuning.verify import verify, verify_winners

# The last phase: the election of the fastest record of each Task.


@dataclass(frozen=True)
class Tuned:
    """The result of a job: the lowered model, its measurements, and the elected schedules of its Tasks."""

    extracted: Extracted
    searched: Searched
    elected: Elected


def tune(job: Job, models: Sequence[Path]) -> tuple[Tuned, ...]:
    """Tune ONNX files, the sizes of one model: search their Tasks, add the results to the records, elect the fastest.

    Tasks that several files have in common are searched once. If the algorithms of convolutions have still to be
    measured, the Tasks of all algorithms are searched together with the other Tasks. A second search then measures the
    Tasks that the chosen algorithms still lack.
    """
    book, searched = RecordBook(job), Searched()
    all_extracted = [extract(job, model) for model in models]
    if any(each.candidates is not None for each in all_extracted):
        agendas = [each.agenda_of(each.candidates) if each.candidates else each.agenda() for each in all_extracted]
        searched = search(job, book, verify(job, book, join_agendas(agendas)))
        all_extracted = [choose(job, book, each) for each in all_extracted]
    agendas = [each.agenda(done=searched.keys) for each in all_extracted]
    searched += search(job, book, verify(job, book, join_agendas(agendas)))
    return tuple(Tuned(each, searched, elect(job, book, each, searched)) for each in all_extracted)


# The choosing phase: the fastest algorithm of each convolution, after all algorithms were measured.


def choose(job: Job, book: RecordBook, extracted: Extracted) -> Extracted:
    """Write the choices file and return the model lowered with the fastest algorithms.

    If no algorithm has to be chosen, return ``extracted`` unchanged. The time of an algorithm is the sum of its Tasks'
    best times on this machine, plus the time to read the weights from memory. For each convolution, the direct
    algorithm has one Task, which includes the fused operators. The others have an input transform, the products, and an
    output transform, which includes the fused operators. A convolution is computed directly if its times are missing
    because ``ops`` leaves its Tasks out.
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
    """Return signature → algorithm → seconds, for the algorithms whose Tasks all have a time."""
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


@dataclass(frozen=True)
class Elected:
    """The Schedule of the elected records, and the records that cannot be elected."""

    schedule: Schedule
    quarantined: list[dict[str, str]]
    """The quarantined records, in the form of `tune.json`."""


def elect(job: Job, book: RecordBook, extracted: Extracted, searched: Searched) -> Elected:
    """Return the fastest record of each Task, after it has replayed here.

    Records that failed are removed from the files of the searched Tasks.
    """
    tasks = extracted.tasks
    with device_lock("local", exclusive=False):
        schedule = elect_all(verify_winners(job, book, tasks), job.measured_on)
    keys = {task.key for task in tasks}
    book.drop_failed(task for task in searched.tasks if task.key in keys)
    return Elected(replace(schedule, algorithms=extracted.algorithms), book.list_quarantined(tasks))
