"""The choosing half of tune: each convolution that can be computed in several ways is measured in all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tvm

from tvmbuild.compiler.importer import ImportedModel
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.tasks import Task, extract_tasks
from tvmbuild.compiler.winograd_tasks import fastest, find_tasks, sum_times, time_reading
from tvmbuild.devices.lock import device_lock
from tvmbuild.frozen_map import FrozenMap
from tvmbuild.layout import Layout
from tvmbuild.progress import report_progress
from tvmbuild.records.choices import DIRECT, Choice, Choices, Graph, describe_graph, write_choices
from tvmbuild.records.selection import read_applicable_files, resolved_target
from tvmbuild.steps import Step, TuneStep
from tvmbuild.tuning.book import device_class

Search = Callable[[tuple[Task, ...]], None]
"""Sees to it that the record files hold what there is to know of the Tasks."""


def find_graph(direct: Lowered, tasks: Sequence[Task]) -> Graph | None:
    """Return what there is to choose in a model, None if nothing; ``direct`` is lowered without any algorithm."""
    if not direct.convolutions:
        return None
    keys = ((task.key, task.weight) for task in tasks)
    return describe_graph(keys, (each.convolution.signature for each in direct.convolutions))


def choose_algorithms(
    step: Step[TuneStep], model: tuple[ImportedModel, Lowered, Graph], target: tvm.target.Target, search: Search
) -> Choices:
    """Measure every algorithm that the step allows, write the choices file, and return what was chosen.

    The time of an algorithm is the sum of its Tasks' best times on this machine: the direct Task with all that is fused
    to it, against the two transforms, with the same fused to the second, and the products; and the time to read the
    weights from memory. What has no time (``ops`` leaves its Tasks out) is computed directly.
    """
    options, (imported, direct, graph) = step.options, model
    lowered = {DIRECT: direct}
    with device_lock("local", exclusive=False):
        for name in options.tune.algorithms:
            if name != DIRECT:
                report_progress(f"extracting the Tasks of {name}")
                lowered[name] = lower(imported, target, None, dict.fromkeys(graph.convolutions, name))
        involved = {name: find_tasks(each) for name, each in lowered.items()}
        keys = {key for by_signature in involved.values() for found in by_signature.values() for key in found}
        tasks = {task.key: task for each in lowered.values() for task in extract_tasks(each) if task.key in keys}
    search(tuple(tasks.values()))
    times = sum_times(involved, _best_seconds(step, options, tasks), graph.convolutions)
    for name, each in lowered.items():
        for signature, seconds in time_reading(each).items():
            if name in times[signature]:
                times[signature][name] = round(times[signature][name] + seconds, 6)
    chosen = Choices(
        {
            signature: Choice(fastest(found) or DIRECT, device_class(options), FrozenMap(sorted(found.items())))
            for signature, found in times.items()
        }
    )
    write_choices(Layout(step.root).records(options.target), graph, resolved_target(options), chosen)
    return chosen


def _best_seconds(step: Step[TuneStep], options: TuneStep, keys: Mapping[str, Task]) -> dict[str, float]:
    folder = Layout(step.root).records(options.target)
    files = read_applicable_files(folder, keys, resolved_target(options))
    found = {key: file.best_on(device_class(options)) for key, file in files.items()}
    return {key: records[0].seconds for key, records in found.items() if records}
