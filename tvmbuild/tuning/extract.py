"""The first phase of tuning: lower the model and extract its Tasks, for every algorithm if none is chosen."""

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
    """Every way to compute a model's convolutions, by algorithm, the direct one first."""

    lowered: Mapping[str, Lowered]
    tasks: tuple[Task, ...]
    """The Tasks that compute the convolutions in any of these ways."""
    involved: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Algorithm → convolution's signature → keys of its Tasks."""


@dataclass(frozen=True)
class Extracted:
    """The lowered model and its Tasks."""

    target: tvm.target.Target
    imported: ImportedModel
    lowered: Lowered
    tasks: tuple[Task, ...]
    graph: Graph | None
    """The convolutions to choose algorithms for; None if there are none."""
    algorithms: FrozenMap[str, str] = FrozenMap()
    """The chosen algorithms that ``lowered`` follows, by the convolution's signature; an absent one is direct."""
    candidates: AlgorithmCandidates | None = None
    """The ways to compare if the fastest has still to be measured."""

    def agenda(self, done: frozenset[str]) -> Agenda:
        """Return the search of its Tasks; ``done`` are the keys that this run has searched."""
        return Agenda(self.tasks, self.target, done)

    def agenda_of(self, candidates: AlgorithmCandidates) -> Agenda:
        """Return the search of the Tasks of all ways and of the rest of the model.

        All are searched at once: after an interruption, no Task lacks a record because a choice was made first.
        """
        every = {task.key: task for task in (*self.tasks, *candidates.tasks)}
        return Agenda(tuple(every.values()), self.target, one_model=False)


def extract(job: Job, model: Path) -> Extracted:
    """Return the ONNX model's Tasks: by its choices, measured or by rule, or direct if it has ``candidates``."""
    resolved = job.resolved
    pinned = PackageTarget(job.target, job.kind, resolved.attributes, resolved.host, precision=job.precision)
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
    """Return the model lowered with these algorithms, by the convolutions' signatures; no choice is left open."""
    if not algorithms:
        return replace(extracted, candidates=None)
    with device_lock("local", exclusive=False):
        lowered, tasks = lower_to_tasks(extracted.imported, extracted.target, Schedule(algorithms=algorithms))
    return replace(extracted, lowered=lowered, tasks=tasks, algorithms=algorithms, candidates=None)


def _find_graph(direct: Lowered, tasks: Sequence[Task], target: tvm.target.Target) -> Graph | None:
    """Return the convolutions to choose algorithms for, None if there are none; ``direct`` is lowered without any."""
    if not direct.convolutions:
        return None
    keys = ((task.key, task.weight) for task in tasks)
    by_rule = {each.signature: choose_algorithm(each, target) for each in (c.convolution for c in direct.convolutions)}
    return describe_graph(keys, by_rule)


def _lower_candidates(direct: Extracted, graph: Graph, allowed: Sequence[str]) -> AlgorithmCandidates:
    """Lower the model with every ``allowed`` algorithm."""
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
