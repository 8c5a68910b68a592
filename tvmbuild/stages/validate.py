"""validate:M@T — the numbers of a package that cannot run here, computed by this machine's CPU from the same module.

The module is the cell's, lowered for its target in its layout and with its algorithms; only the last part of the way,
schedules and code, is the CPU's. What this finds is what import, rewrites and lowering do wrong.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.target import codegen

from tvmbuild.compiler.build import apply_records, build_executable
from tvmbuild.compiler.fallback import is_scheduled
from tvmbuild.compiler.importer import import_onnx
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.precision import reduce_precision
from tvmbuild.compiler.target import tvm_target
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import write_json
from tvmbuild.host_cpu import available_cores
from tvmbuild.layout import Layout
from tvmbuild.progress import report_progress
from tvmbuild.records.database import database_from_schedule
from tvmbuild.stages.compare import Comparison, compare
from tvmbuild.stages.reference import Reference, read_reference
from tvmbuild.steps import Step, ValidateStep

FORMAT = 1


def run(step: Step) -> None:
    """Publish validated.json; TvmbuildError when the numbers are not the reference's. A lowering is computed once."""
    options = step.options
    if not isinstance(options, ValidateStep):
        raise TypeError(f"{step.id} has the options of another stage")
    with device_lock("local", exclusive=False):
        lowered = _lower(step, options, tvm_target(options.kind, options.attributes, options.host))
        known = Layout(step.root).validated(step.model, _digest(lowered, step, options))
        found = _read(known) or _compute(step, options, lowered)
    write_json(known, found)
    write_json(step.output("validated"), found)


def _lower(step: Step, options: ValidateStep, target: tvm.target.Target) -> Lowered:
    """Lower the model as the cell's, for ``target``: its own, or where that has no code for CPUs, this machine's."""
    schedule = json.loads(step.input("schedule").read_text(encoding="utf-8"))
    report_progress("lowering")
    imported = reduce_precision(import_onnx(step.input("model"), step.model), options.precision, options.kind)
    return lower(imported, target, schedule["layout"], schedule.get("algorithms", {}))


def _digest(lowered: Lowered, step: Step, options: ValidateStep) -> str:
    module = tvm_ffi.structural_hash(lowered.mod, map_free_vars=True) & 0xFFFFFFFFFFFFFFFF
    told = hashlib.sha256(repr(options.tolerance).encode() + step.input("reference").read_bytes()).hexdigest()
    return f"{module:016x}{told[:16]}"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) and value.get("format") == FORMAT else None


def _compute(step: Step, options: ValidateStep, lowered: Lowered) -> dict[str, Any]:
    comparison = _compare(step, options, lowered)
    if comparison.problem is not None:
        raise TvmbuildError(
            f"{step.id}: computed on this CPU, the model gives wrong numbers: {comparison.problem}",
            f"largest error {comparison.max_abs_error:.3g} absolute, {comparison.max_rel_error:.3g} relative",
        )
    return {
        "format": FORMAT,
        "max_abs_error": comparison.max_abs_error,
        "max_rel_error": comparison.max_rel_error,
    }


def _compare(step: Step, options: ValidateStep, lowered: Lowered) -> Comparison:
    here = tvm_target("llvm", (("mcpu", str(codegen.llvm_get_system_cpu())), ("num-cores", available_cores())), ())
    report_progress("generating code for this CPU")
    if any(isinstance(each, tvm.tirx.PrimFunc) and is_scheduled(each) for each in lowered.mod.functions.values()):
        lowered = _lower(step, options, here)  # TVM has code of its own for some operators on GPUs
    applied = apply_records(lowered, here, database_from_schedule({"schedule": {}}, (), here))
    machine = relax.VirtualMachine(build_executable(applied.mod, here).jit(), tvm.cpu())
    reference = read_reference(step.input("reference"))
    allowed = options.tolerance.at_least(reference.precision)
    report_progress("computing")
    comparison = compare(_run(machine, lowered, reference), reference.outputs, allowed)
    if comparison.problem is None and reference.specials is not None:
        special = compare(_run(machine, lowered, reference.specials), reference.specials.outputs, allowed)
        comparison = replace(comparison, problem=special.problem)
    return comparison


def _run(machine: relax.VirtualMachine, lowered: Lowered, reference: Reference) -> dict[str, np.ndarray]:
    arguments = (tvm.runtime.tensor(np.asarray(reference.inputs[each.name], order="C")) for each in lowered.inputs)
    result = machine["main"](*arguments)
    results = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return {info.name: value.numpy() for info, value in zip(lowered.outputs, results, strict=True)}
