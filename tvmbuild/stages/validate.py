"""validate:M@T — the numbers of a package whose device is not here.

A device of this machine's runs it where one can; else this CPU computes the module that it is made of.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import report_progress
from tvmbuild.base.steps import Step, ValidateStep
from tvmbuild.benchmarking.stand_in import CannotRunError, run_package
from tvmbuild.benchmarking.validated import Validated
from tvmbuild.benchmarking.validation import lower_model, validate
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.preparing.reference import read_reference
from tvmbuild.records.schedule import read_schedule


def run(step: Step[ValidateStep]) -> None:
    """Publish validated.json; TvmbuildError when the numbers are not the reference's."""
    found = _compute(step) if step.options.stand_in is None else _run(step)
    write_json(step.output("validated"), found.to_json())


def _run(step: Step[ValidateStep]) -> Validated:
    """Let this machine's device run the package; its CPU computes what the device lacks something for."""
    try:
        return run_package(step.subject, step.input("package"), step.input("reference"), step.options.tolerance)
    except CannotRunError as error:
        report_progress(f"this machine's {step.options.kind} device cannot run the package: {error.message}")
        return replace(_compute(step), note=f"{step.options.stand_in} cannot run the package: {error.message}")


def _compute(step: Step[ValidateStep]) -> Validated:
    """Compute on the CPU: a lowering once, whatever the cells that have it."""
    options = step.options
    target = PackageTarget(options.target, options.kind, options.attributes, options.host, precision=options.precision)
    with device_lock("local", exclusive=False):
        model = lower_model(step.input("model"), target, read_schedule(step.input("schedule")), step.model)
        reference = step.input("reference")
        known = Layout(step.root).validated(step.model, model.key(reference.read_bytes(), options.tolerance))
        found = _read(known) or validate(model, read_reference(reference), options.tolerance)
    write_json(known, found.to_json())
    return found


def _read(path: Path) -> Validated | None:
    try:
        return Validated.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
