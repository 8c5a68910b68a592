"""A program that prints as JSON how a model is compiled: its passes, or its kernels and their schedules.

It is started as ``python -m tvmbuild.building.inspection REQUEST`` in its own process, because TVM may crash on a
model. It writes files only for a dump of the passes.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tvmbuild.building.scheduling import ScheduledModel, schedule_model
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.dump import format_table, record_passes
from tvmbuild.compiler.ir.calls import called_functions, display_name
from tvmbuild.compiler.ir.prim_funcs import is_scheduled
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.passes.lift_constants import lift_constants
from tvmbuild.compiler.schedules.attempt import Attempt, trace_rules
from tvmbuild.compiler.schedules.cpu.rules import schedule_function
from tvmbuild.compiler.schedules.gpu.rules import list_schedules
from tvmbuild.compiler.tasks import normalised, task_key
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.records.schedule import Schedule, read_schedule


@dataclass(frozen=True)
class Kernel:
    """A function of the lowered model, and the origin of its schedule."""

    name: str
    key: str
    """The key of the function's Task."""
    calls: int
    """The number of calls in the model."""
    origin: str
    """The origin of the schedule: ``record``, ``rule``, or ``given`` if the lowered function has its schedule already.

    Functions of the last kind are TVM's own code, or their loops were written together with the function.
    """
    attempts: tuple[Attempt, ...] = ()
    """The schedule rules that refused the function or made its schedule, in order. Empty unless a rule scheduled it."""

    @property
    def rules(self) -> str:
        """The names of the rules that made the schedule, or empty if its loops are plain or a record's."""
        return " and ".join(dict.fromkeys(each.rule for each in self.attempts if each.refused is None))


def show_passes(model: Path, target: PackageTarget, schedule: Schedule, folder: Path | None) -> list[str]:
    """Compile the model as for a package and return the lines of a table of the passes that ran.

    If ``folder`` is given, the module is written there after each pass that changed it.
    """
    with record_passes(folder) as ran:
        scheduled = schedule_model(model, target, schedule)
        lifted = lift_constants(scheduled.mod)
        build_executable(lifted.mod, scheduled.target)
    return format_table(ran)


def list_kernels(scheduled: ScheduledModel) -> list[Kernel]:
    """Return the model's distinct kernels in the order of their first calls, each with the origin of its schedule."""
    mod, kernels = scheduled.lowered.mod, dict[str, Kernel]()
    for variable in called_functions(mod):
        key = task_key(normalised(mod[variable]))
        before = kernels.get(key)
        if before is not None:
            kernels[key] = replace(before, calls=before.calls + 1)
            continue
        name = display_name(variable.name_hint)
        if is_scheduled(mod[variable]):
            kernels[key] = Kernel(name, key, 1, "given")
        elif key in scheduled.coverage.covered:
            kernels[key] = Kernel(name, key, 1, "record")
        else:
            kernels[key] = Kernel(name, key, 1, "rule", _trace(mod[variable], scheduled.target))
    return list(kernels.values())


def _trace(function: Any, target: Any) -> tuple[Attempt, ...]:
    """Return the rules that refused the function, and the rules that made the schedule that it gets."""
    chosen: list[object] = [True]  # in place
    with target, trace_rules() as attempts:
        if is_gpu(target):
            chosen += list_schedules(function, target, 1)
        else:
            schedule_function(function, describe_machine(target))
    kept = [each for each in attempts if each.refused is not None or any(each.made is made for made in chosen)]
    return tuple(replace(each, made=None) for each in kept if not each.rule.endswith(".inline_blocks"))


def main(request: str) -> None:
    """Compile the model that the ``request`` (JSON) names, and print the result or the error as one line of JSON."""
    asked = json.loads(request)
    model, target = Path(asked["model"]), PackageTarget.from_json(asked["target"])
    answer: dict[str, object] = {"problem": None}
    try:
        schedule = read_schedule(Path(asked["schedule"]))
        if "folder" in asked:
            folder = Path(asked["folder"]) if asked["folder"] else None
            answer["found"] = show_passes(model, target, schedule, folder)
        else:
            answer["found"] = [asdict(each) for each in list_kernels(schedule_model(model, target, schedule))]
    except TvmbuildError as error:
        answer.update(problem=error.message, hint=error.hint)
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
