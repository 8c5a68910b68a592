"""The stage tune:M@T: extract the cell's Tasks, measure those that lack records, and elect the Schedule."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from tvmbuild.base.files import write_json
from tvmbuild.base.kept_nodes import list_kept
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Step, TuneStep, find_model, list_sizes
from tvmbuild.base.wording import count
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.schedule import join_schedules
from tvmbuild.records.selection import resolved_target, write_tasks
from tvmbuild.stages.entries import check_stated_entries
from tvmbuild.stages.sizes import remove_other_sizes
from tvmbuild.tuning.agenda import name_tasks
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.phases import Tuned, tune


def run(step: Step[TuneStep]) -> None:
    """Write `tasks.json`, `schedule.json` and `tune.json`, and add the measurements to the target's records.

    Raises TvmbuildError if the model does not have the form of its results, or if a Task has no record although
    `strict=1` is set.
    """
    largest, options = step.input("model"), step.options
    labels = None if options.labels is None else step.root / options.labels
    check_stated_entries(largest, step.model, options, labels if labels and labels.exists() else None)
    models = [find_model(step, size) for size in list_sizes(step, "tasks")]
    _publish(step, tune(make_job(step), models or [largest]))


def make_job(step: Step[TuneStep]) -> Job:
    """Return the tuning job that the step describes."""
    options = step.options
    return Job(
        model=step.model,
        target=options.target,
        resolved=resolved_target(options),
        device=options.device,
        options=options.tune,
        layout=Layout(step.root),
        measured_on=options.measured_on,
        precision=options.precision,
        keep=list_kept(step),
        threads=options.threads,
        mode=step.settings.tune,
        rules=options.rules,
        deadline=math.inf if options.tune.minutes is None else time.monotonic() + 60 * options.tune.minutes,
    )


def _publish(step: Step[TuneStep], tuned: Sequence[Tuned]) -> None:
    """Write the files of all sizes, and those with the Tasks of all together. The largest size is the last."""
    largest, by_size = tuned[-1], dict(zip(list_sizes(step, "tasks"), tuned, strict=False))
    tasks = {task.key: task for each in reversed(tuned) for task in reversed(each.extracted.tasks)}
    schedule = join_schedules([each.elected.schedule for each in tuned])
    uncovered = [task for key, task in reversed(tasks.items()) if key not in schedule.traces]
    if uncovered and step.refuses_uncovered:
        raise TvmbuildError(
            f"{len(uncovered)} of {count(len(tasks), 'Task')} {'has' if len(uncovered) == 1 else 'have'} no record: "
            + ", ".join(sorted(task.name for task in uncovered)),
            "Tune them (tune=missing, on a machine that has the device) and commit records/, or drop strict=1.",
        )
    for size, each in by_size.items():
        write_tasks(step.output(f"tasks {size}"), name_tasks(each.extracted.tasks), each.extracted.graph)
    write_tasks(step.output("tasks"), name_tasks(tuple(tasks.values())), largest.extracted.graph)
    searched = largest.searched
    # A Task may have several faults, and sizes may share it.
    quarantined = {tuple(row.items()): row for each in tuned for row in each.elected.quarantined}
    notes = dict.fromkeys(note for each in reversed(tuned) for note in each.extracted.lowered.notes)
    write_json(
        step.output("info"),
        {
            "format": 1,
            "tasks": len(tasks),
            "covered": len(tasks) - len(uncovered),
            "uncovered": [{"key": task.key, "name": task.name} for task in uncovered],
            "quarantined": list(quarantined.values()),
            "layout": largest.extracted.lowered.layout,
            "algorithms": schedule.algorithms,
            "notes": list(notes),
            "measured_now": searched.measured,
            "phases_now": dict(searched.phases),
            "searched_now": [task.name for task in searched.tasks],
            "seconds": round(searched.seconds, 1),
        },
    )
    remove_other_sizes(step.output("schedule"), by_size)
    # Last, because compile depends on these files, and an interrupted step must leave the old ones.
    for size, each in by_size.items():
        write_json(step.output(f"schedule {size}"), each.elected.schedule.to_json())
    write_json(step.output("schedule"), schedule.to_json())
