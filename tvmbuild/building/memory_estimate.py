"""An estimate of the memory that a package will take, before it is built."""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import plan_scheduled
from tvmbuild.compiler.passes.lift_constants import lift_constants
from tvmbuild.compiler.pipeline import Lowered
from tvmbuild.compiler.tasks import Task
from tvmbuild.package.memory import Memory
from tvmbuild.records.schedule import NO_RECORDS
from tvmbuild.replay.database import database_from_schedule

_CODE_OF_ALL, _CODE_OF_A_TASK = 20_000, 8_000
"""The approximate number of bytes of code in every package, and of each Task."""


def estimate_memory(lowered: Lowered, tasks: Sequence[Task], target: tvm.target.Target) -> Memory:
    """Estimate the memory of a model's package without records, for a CPU.

    Weights, workspace and scratch memory are those of the schedule rules; records may choose others. The code is
    estimated from the number of Tasks.
    """
    scheduled = apply_records(lowered, target, database_from_schedule(NO_RECORDS, tasks, target))
    lifted = lift_constants(scheduled.mod)
    plan = plan_scheduled(lifted.mod, target)
    return Memory(
        weights=lifted.bytes,
        workspace=plan.workspace,
        code=_CODE_OF_ALL + _CODE_OF_A_TASK * len(tasks),
        scratch=plan.scratch.of_threads(int(target.attrs.get("num-cores", 1))),
        largest=plan.largest,
    )
