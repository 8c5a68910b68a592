"""What the compiler does to a model: ``python -m tvmbuild.building.inspection REQUEST`` prints what it finds as JSON.

A process of its own, for TVM may crash on a model. Nothing but the dump is written.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.specs import freeze_attributes
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
from tvmbuild.records.schedule import NO_RECORDS, Schedule, read_schedule


@dataclass(frozen=True)
class Kernel:
    """A function of the lowered model, and where its schedule comes from."""

    name: str
    key: str
    """The Task's."""
    calls: int
    origin: str
    """``record``, ``rule``, or ``given``: TVM's own code, or loops that were written with the function."""
    attempts: tuple[Attempt, ...] = ()
    """The rules that were tried, in order."""


@dataclass(frozen=True)
class Inspected:
    """What is found."""

    passes: tuple[str, ...] = ()
    """The lines of a table."""
    kernels: tuple[Kernel, ...] = ()
    problem: str | None = None
    hint: str | None = None


def inspect(
    model: Path, target: PackageTarget, schedule: Schedule = NO_RECORDS, folder: Path | None = None
) -> Inspected:
    """Compile the model as a package of the target would be; with a folder, dump the module after each pass there."""
    with record_passes(folder) as ran:
        scheduled = schedule_model(model, target, schedule)
        lifted = lift_constants(scheduled.mod, len(scheduled.lowered.inputs))
        build_executable(lifted.mod, scheduled.target)
    return Inspected(tuple(format_table(ran)), tuple(list_kernels(scheduled)))


def list_kernels(scheduled: ScheduledModel) -> list[Kernel]:
    """Return the kernels in the order of the program, each with the rules that were tried on it."""
    mod, kernels = scheduled.lowered.mod, dict[str, Kernel]()
    for variable in called_functions(mod):
        key = task_key(normalised(mod[variable]))
        before = kernels.get(key)
        if before is not None:
            kernels[key] = Kernel(before.name, key, before.calls + 1, before.origin, before.attempts)
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
    with target, trace_rules() as attempts:
        if is_gpu(target):
            list_schedules(function, target, 1)
        else:
            schedule_function(function, describe_machine(target))
    return tuple(each for each in attempts if not each.rule.endswith(".inline_blocks"))  # before all rules


def main(request: str) -> None:
    """Print what is found."""
    asked = json.loads(request)
    target = asked["target"]
    read = {**target, "attributes": freeze_attributes(target["attributes"]), "host": freeze_attributes(target["host"])}
    folder = Path(asked["folder"]) if asked["folder"] else None
    try:
        schedule = read_schedule(Path(asked["schedule"]))
        found = inspect(Path(asked["model"]), PackageTarget(**read), schedule, folder)
    except TvmbuildError as error:
        found = Inspected(problem=error.message, hint=error.hint)
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(sys.argv[1])
