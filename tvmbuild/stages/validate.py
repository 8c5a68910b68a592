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

import tvm

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.graph.precision import reduce_precision
from tvmbuild.compiler.importing.importer import ImportedModel, import_onnx
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.prim_funcs import is_scheduled
from tvmbuild.compiler.target import host_target, tvm_target
from tvmbuild.compiler.tasks import task_key
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import write_json
from tvmbuild.host_cpu import available_cores
from tvmbuild.layout import Layout
from tvmbuild.preparing.compare import Comparison, compare
from tvmbuild.preparing.reference import read_reference
from tvmbuild.preparing.specials import find_special_problem
from tvmbuild.progress import report_progress
from tvmbuild.steps import Step, ValidateStep

FORMAT = 1


def run(step: Step[ValidateStep]) -> None:
    """Publish validated.json; TvmbuildError when the numbers are not the reference's. A lowering is computed once."""
    options = step.options
    with device_lock("local", exclusive=False):
        report_progress("lowering")
        imported = reduce_precision(import_onnx(step.input("model"), step.model), options.precision, options.kind)
        lowered = _lower(imported, step, tvm_target(options.kind, options.attributes, options.host))
        known = Layout(step.root).validated(step.model, _digest(lowered, step, options))
        found = _read(known) or _compute(step, options, _without_gpu_code(lowered, imported, step))
    write_json(known, found)
    write_json(step.output("validated"), found)


def _lower(imported: ImportedModel, step: Step[ValidateStep], target: tvm.target.Target) -> Lowered:
    schedule = json.loads(step.input("schedule").read_text(encoding="utf-8"))
    return lower(imported, target, schedule["layout"], schedule.get("algorithms", {}))


def _without_gpu_code(lowered: Lowered, imported: ImportedModel, step: Step[ValidateStep]) -> Lowered:
    """Return the module, lowered for this CPU where TVM has code for GPUs alone in it, which comes scheduled."""
    functions = lowered.mod.functions.values()
    if any(isinstance(each, tvm.tirx.PrimFunc) and is_scheduled(each) for each in functions):
        return _lower(imported, step, host_target())
    return lowered


def _digest(lowered: Lowered, step: Step[ValidateStep], options: ValidateStep) -> str:
    told = hashlib.sha256(repr(options.tolerance).encode() + step.input("reference").read_bytes()).hexdigest()
    return task_key(lowered.mod) + told[:16]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) and value.get("format") == FORMAT else None


def _compute(step: Step[ValidateStep], options: ValidateStep, lowered: Lowered) -> dict[str, Any]:
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


def _compare(step: Step[ValidateStep], options: ValidateStep, lowered: Lowered) -> Comparison:
    report_progress("generating code for this CPU")
    compute = build_here(lowered, host_target(threads=available_cores()))
    reference = read_reference(step.input("reference"))
    allowed = options.tolerance.at_least(reference.precision)
    report_progress("computing")
    comparison = compare(compute(reference.inputs), reference.outputs, allowed)
    return replace(comparison, problem=comparison.problem or find_special_problem(reference, compute, allowed))
