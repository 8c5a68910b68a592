"""The check of one record: its workload must be the Task's workload, and its trace must give code."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.meta_schedule.database import MemoryDatabase
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from tvmbuild.base.attributes import freeze_attributes
from tvmbuild.compiler.codegen.prepare import prepare_compiler
from tvmbuild.compiler.machine.target import is_gpu, tvm_target
from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes
from tvmbuild.compiler.tasks import task_key
from tvmbuild.errors import TvmbuildError
from tvmbuild.replay.traces import load_record, load_workload


def make_target(value: dict[str, Any]) -> tvm.target.Target:
    """Return the TVM target for the ``target`` of a record file."""
    return tvm_target(value["kind"], freeze_attributes(value["attributes"]), freeze_attributes(value["host"]))


def find_target_fault(value: dict[str, Any]) -> str | None:
    """Return why TVM cannot make code for the ``target`` of a record file, or None if it can."""
    try:
        make_target(value)
    except TvmbuildError as error:
        return error.message
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, tvm.error.InternalError) as error:
        return f"TVM refuses its target: {error}"[:500]
    return None


def find_fault(check: dict[str, str], target: tvm.target.Target) -> str | None:
    """Return why a check fails, or None if it succeeds.

    The check's ``workload`` is TVM's JSON text. If the check has a ``key``, the workload must have this key. If it has
    ``like``, the workload must equal that workload, except for names. If it has a ``trace``, the trace must apply to
    the workload and give code.
    """
    try:
        mod = load_workload(check["workload"])
        if "key" in check and task_key(mod) != check["key"]:
            return f"its workload has the key {task_key(mod)}"
        if "like" in check and not tvm_ffi.structural_equal(mod, load_workload(check["like"]), map_free_vars=True):
            return "it holds another workload than its key names"
        return _replay(mod, check["trace"], target) if "trace" in check else None
    except TvmbuildError as error:
        return error.message
    except MemoryError:
        return "it takes too much memory"


def _replay(mod: tvm.IRModule, trace: str, target: tvm.target.Target) -> str | None:
    database = MemoryDatabase()
    workload = database.commit_workload(mod)
    database.commit_tuning_record(load_record(trace, workload, target))
    try:
        schedule = database.query_schedule(mod, target, "main")
        if schedule is None:
            return "the trace is empty: TVM ignores it"
        functions = dict(schedule.mod.functions.items())
        if len(functions) != 1:
            return f"it makes {len(functions)} functions of one"
        if not is_gpu(target):
            prepare_compiler()
            scheduled = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(schedule.mod)
            tvm.driver.build(run_tir_passes(scheduled, target), target=target)
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        RuntimeError,
        tvm.error.InternalError,
    ) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"it gives no code: {lines[-1] if lines else type(error).__name__}"[:500]
    return None
