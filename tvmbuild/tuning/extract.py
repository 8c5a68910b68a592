"""The first phase of tuning: lower the model and extract its Tasks.

If algorithms of convolutions have still to be chosen, the Tasks of every permitted algorithm are extracted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import tvm

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.progress import report_progress
from tvmbuild.building.scheduling import import_for, lower_for, lower_to_tasks, make_target
from tvmbuild.compiler.convolution_times import find_tasks
from tvmbuild.compiler.importing.importer import ImportedModel
from tvmbuild.compiler.passes.winograd.apply_winograd import choose_algorithm
from tvmbuild.compiler.pipeline import Lowered
from tvmbuild.compiler.tasks import Task, extract_tasks
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.records.choices import DIRECT, Choices, Graph, describe_graph, read_choices
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.selection import must_choose
from tvmbuild.tuning.agenda import Agenda
from tvmbuild.tuning.job import Job


@dataclass(frozen=True)
class AlgorithmCandidates:
    """The model lowered once with each permitted algorithm for its convolutions. The direct algorithm is first."""

    lowered: Mapping[str, Lowered]
    tasks: tuple[Task, ...]
    """The Tasks that compute the convolutions with any of these algorithms."""
    involved: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Algorithm → signature of the convolution → keys of the Tasks that compute it."""


@dataclass(frozen=True)
class Extracted:
    """The lowered model and its Tasks."""

    target: tvm.target.Target
    imported: ImportedModel
    lowered: Lowered
    tasks: tuple[Task, ...]
    graph: Graph | None
    """The convolutions to choose algorithms for, or None if there are none."""
    algorithms: FrozenMap[str, str] = FrozenMap()
    """Signature of a convolution → algorithm with which ``lowered`` computes it. An absent convolution is direct."""
    candidates: AlgorithmCandidates | None = None
    """The lowered models to compare, or None if no algorithm has still to be chosen."""

    def agenda(self, done: frozenset[str] = frozenset()) -> Agenda:
        """Return the agenda of a search of the model's Tasks. ``done`` are the keys that this run has searched."""
        return Agenda(self.tasks, self.target, done)

    def agenda_of(self, candidates: AlgorithmCandidates) -> Agenda:
        """Return the agenda of a search of the Tasks of all algorithms and of the rest of the model.

        All are searched at once. If the algorithms were measured first, an interruption could leave the rest without
        records.
        """
        every = {task.key: task for task in (*self.tasks, *candidates.tasks)}
        return Agenda(tuple(every.values()), self.target, one_model=False)


def extract(job: Job, model: Path) -> Extracted:
    """Lower the ONNX file ``model`` and return it with its Tasks.

    If the algorithms of its convolutions have still to be measured, the model is lowered directly and ``candidates``
    holds it lowered with each permitted algorithm. Otherwise it is lowered with the measured choices, or with the
    choices of the rules for convolutions that were not measured.
    """
    resolved = job.resolved
    pinned = PackageTarget(
        job.target, job.kind, resolved.attributes, resolved.host, precision=job.precision, keep=job.keep
    )
    target = make_target(pinned)
    with device_lock("local", exclusive=False):
        report_progress("extracting tasks")
        imported = import_for(model, pinned, job.model)
        direct, tasks = lower_to_tasks(imported, target)
    extracted = Extracted(target, imported, direct, tasks, _find_graph(direct, tasks, target))
    choices = read_choices(job.records, extracted.graph, job.resolved)
    if choices.problem is not None:
        report_progress(choices.problem)
        print(choices.problem)
    known = Choices({}) if job.mode == "full" else choices
    if extracted.graph is not None and job.may_search and must_choose(job.options, extracted.graph, known):
        return replace(extracted, candidates=_lower_candidates(extracted, extracted.graph, job.options.algorithms))
    return lower_by(extracted, choices.algorithms(extracted.graph, job.options.algorithms))


def lower_by(extracted: Extracted, algorithms: FrozenMap[str, str]) -> Extracted:
    """Return the model lowered with these algorithms, without ``candidates``.

    ``algorithms`` maps the signature of a convolution to its algorithm.
    """
    if not algorithms:
        return replace(extracted, candidates=None)
    with device_lock("local", exclusive=False):
        lowered, tasks = lower_to_tasks(extracted.imported, extracted.target, Schedule(algorithms=algorithms))
    return replace(extracted, lowered=lowered, tasks=tasks, algorithms=algorithms, candidates=None)


def _find_graph(direct: Lowered, tasks: Sequence[Task], target: tvm.target.Target) -> Graph | None:
    """Return the convolutions to choose algorithms for, or None if there are none.

    ``direct`` is the model lowered without algorithms, and ``tasks`` are its Tasks.
    """
    if not direct.convolutions:
        return None
    keys = ((task.key, task.weight) for task in tasks)
    by_rule = {each.signature: choose_algorithm(each, target) for each in (c.convolution for c in direct.convolutions)}
    return describe_graph(keys, by_rule)


def _lower_candidates(direct: Extracted, graph: Graph, allowed: Sequence[str]) -> AlgorithmCandidates:
    """Lower the model once with each ``allowed`` algorithm."""
    lowered = {DIRECT: direct.lowered}
    with device_lock("local", exclusive=False):
        for name in allowed:
            if name != DIRECT:
                report_progress(f"extracting the Tasks of {name}")
                algorithms = dict.fromkeys(graph.convolutions, name)
                lowered[name] = lower_for(direct.imported, direct.target, Schedule(algorithms=FrozenMap(algorithms)))
        involved = {name: find_tasks(each) for name, each in lowered.items()}
        keys = {key for by_signature in involved.values() for found in by_signature.values() for key in found}
        tasks = {task.key: task for each in lowered.values() for task in extract_tasks(each) if task.key in keys}
    return AlgorithmCandidates(lowered, tuple(tasks.values()), involved)
