"""The stage tune:M@T: extract the cell's Tasks, measure those that lack records, and elect the Schedule."""

from __future__ import annotations

import math
import time

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.selection import resolved_target, write_tasks
from tvmbuild.tuning.agenda import name_tasks
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.phases import Tuned, tune


def run(step: Step[TuneStep]) -> None:
    """Write `tasks.json`, `schedule.json` and `tune.json`, and add the measurements to the target's records.

    Raises TvmbuildError if a Task has no record although `strict=1` is set.
    """
    _publish(step, tune(make_job(step), step.input("model")))


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
        threads=options.threads,
        mode=step.settings.tune,
        rules=options.rules,
        deadline=math.inf if options.tune.minutes is None else time.monotonic() + 60 * options.tune.minutes,
    )


def _publish(step: Step[TuneStep], tuned: Tuned) -> None:
    extracted, searched, schedule = tuned.extracted, tuned.searched, tuned.elected.schedule
    tasks = extracted.tasks
    uncovered = [task for task in tasks if task.key not in schedule.traces]
    if uncovered and step.refuses_uncovered:
        raise TvmbuildError(
            f"{len(uncovered)} of {len(tasks)} Tasks have no record: "
            + ", ".join(sorted(task.name for task in uncovered)),
            "Tune them (tune=missing, on a machine that has the device) and commit records/, or drop strict=1.",
        )
    write_tasks(step.output("tasks"), name_tasks(tasks), extracted.graph)
    write_json(
        step.output("info"),
        {
            "format": 1,
            "tasks": len(tasks),
            "covered": len(tasks) - len(uncovered),
            "uncovered": [{"key": task.key, "name": task.name} for task in uncovered],
            "quarantined": tuned.elected.quarantined,
            "layout": extracted.lowered.layout,
            "algorithms": schedule.algorithms,
            "notes": list(extracted.lowered.notes),
            "measured_now": searched.measured,
            "phases_now": dict(searched.phases),
            "searched_now": [task.name for task in searched.tasks],
            "seconds": round(searched.seconds, 1),
        },
    )
    # Last, because compile depends on this file, and an interrupted step must leave the old one.
    write_json(step.output("schedule"), schedule.to_json())
