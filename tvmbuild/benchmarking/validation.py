"""The numbers of a package that cannot run here, computed by this machine's CPU from the same module.

The module is the cell's, lowered for its target in its layout and with its algorithms. Only the last part, schedules
and code, is the CPU's. The check finds errors of import, rewrites and lowering.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import tvm

from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import Tolerance
from tvmbuild.benchmarking.accuracy import Judge, Run
from tvmbuild.benchmarking.validated import Validated
from tvmbuild.building.scheduling import Model, import_for, lower_for, make_target
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import ImportedModel
from tvmbuild.compiler.ir.prim_funcs import is_scheduled, names_instructions
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.pipeline import Lowered
from tvmbuild.compiler.tasks import task_key
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.preparing.compare import Comparison
from tvmbuild.preparing.reference import Reference, explain_difference
from tvmbuild.preparing.specials import find_special_problem
from tvmbuild.records.schedule import NO_RECORDS, Schedule


@dataclass(frozen=True)
class LoweredModel:
    """A lowered model, from which its package's code is made."""

    cell: str
    imported: ImportedModel
    schedule: Schedule
    lowered: Lowered

    def key(self, reference: bytes, tolerance: Tolerance, judged: bytes = b"") -> str:
        """Return a short key of all that determines the numbers: the module, the reference's content, the tolerance.

        ``judged`` identifies the inputs of the accuracy check.
        """
        told = hashlib.sha256(repr(tolerance).encode() + reference + judged).hexdigest()
        return task_key(self.lowered.mod) + told[:16]


def lower_model(
    model: Model, target: PackageTarget, schedule: Schedule = NO_RECORDS, name: str = "model"
) -> LoweredModel:
    """Lower the model as for the target, without generating code. Messages call the model ``name``."""
    report_progress("lowering")
    imported = import_for(model, target, name)
    return LoweredModel(f"{name}@{target.name}", imported, schedule, lower_for(imported, make_target(target), schedule))


def validate(model: LoweredModel, reference: Reference, tolerance: Tolerance, judge: Judge | None = None) -> Validated:
    """Compute the model here. Raises TvmbuildError if the numbers differ from the reference's."""
    report_progress("generating code for this CPU")
    compute = build_here(_without_foreign_code(model), host_target(threads=available_cores()))
    comparison = _compare(compute, reference, tolerance)
    if comparison.problem is not None:
        raise TvmbuildError(
            f"validate:{model.cell}: computed on this CPU, the model gives wrong numbers: {comparison.problem}",
            explain_difference(comparison, reference, model.cell),
        )
    accuracy = judge(compute) if judge else None
    return Validated(
        comparison.max_abs_error, comparison.max_rel_error, accuracy=accuracy, unjudged=comparison.unjudged
    )


def _without_foreign_code(model: LoweredModel) -> Lowered:
    """Return the module. If it has scheduled GPU code or instructions of another CPU, lower it for this CPU instead."""
    functions = [each for each in model.lowered.mod.functions.values() if isinstance(each, tvm.tirx.PrimFunc)]
    if any(is_scheduled(each) or names_instructions(each) for each in functions):
        return lower_for(model.imported, host_target(), model.schedule)
    return model.lowered


def _compare(compute: Run, reference: Reference, tolerance: Tolerance) -> Comparison:
    report_progress("computing")
    comparison = reference.compare(compute(reference.inputs), tolerance)
    special = find_special_problem(reference, compute, reference.allow(tolerance))
    return replace(comparison, problem=comparison.problem or special)
