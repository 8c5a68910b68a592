"""The Tasks of a lowered module: the workloads that MetaSchedule tunes, keyed by content."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
import tvm_ffi

from tvmbuild.compiler.ir.calls import called_functions, display_name
from tvmbuild.compiler.pipeline import Lowered


@dataclass(frozen=True)
class Task:
    """One fused operator. ``key`` is a digest of its workload without names: equal layers have equal keys."""

    key: str
    """The digest: 16 hex digits, the same in every process and model."""
    name: str
    """The fused operators, for people: ``conv2d_add_maximum_minimum``; several Tasks may share one name."""
    mod: tvm.ir.IRModule
    """The workload for MetaSchedule: a module of one function, ``main``."""
    weight: int
    """The number of calls in the model."""


def extract_tasks(lowered: Lowered) -> tuple[Task, ...]:
    """Return the module's distinct Tasks in the order in which ``main`` first calls them.

    Raises RuntimeError if two different Tasks have the same key.
    """
    found: dict[str, Task] = {}
    for variable in called_functions(lowered.mod):
        mod = normalised(lowered.mod[variable])
        key = task_key(mod)
        seen = found.get(key)
        if seen is not None and not tvm_ffi.structural_equal(seen.mod, mod, map_free_vars=True):
            raise RuntimeError(f"two different Tasks have the key {key}: {seen.name} and {variable.name_hint}")
        weight = 1 if seen is None else seen.weight + 1
        first = seen or Task(key, display_name(variable.name_hint), mod, 0)
        found[key] = Task(key, first.name, first.mod, weight)
    return tuple(found.values())


def task_key(mod: tvm.ir.IRModule) -> str:
    """Return the workload's digest as 16 hex digits."""
    return f"{tvm_ffi.structural_hash(mod, map_free_vars=True) & 0xFFFFFFFFFFFFFFFF:016x}"


def normalised(function: tvm.tirx.PrimFunc) -> tvm.ir.IRModule:
    """Return the function as a workload, alone and named ``main``, the form that MetaSchedule looks up."""
    return tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")(function)
